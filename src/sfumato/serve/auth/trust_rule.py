"""One rule of a trust policy: its conditions, and whether what is known of a request fulfils them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.auth.addresses import Address, Network, address_of, network_of

__all__ = ["Context", "Rule", "shown"]

_LISTS = ("readers", "networks", "authorisations", "jurisdictions")
_AGES = ("min_age_days", "max_age_days")
_FIELDS = (*_LISTS, *_AGES, "distrust")
_MOST_ENTRIES = 1000
_MOST_TEXT = 200
_MOST_DAYS = 1_000_000
_CODE = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Context:
    """What is known of a request besides its reader; None of what is not.

    ``address`` is the network address it came from, ``authorisations`` what the reader was granted, and
    ``age_days`` the age of the data. None of it may be what the reader merely says of itself.
    """

    address: str | None = None
    authorisations: frozenset[str] = frozenset()
    jurisdiction: str | None = None
    age_days: float | None = None


@dataclass(frozen=True)
class Rule:
    """τ for those who fulfil every condition; a condition that is None or empty is none.

    One of ``readers``, an address in one of ``networks``, all of ``authorisations``, one of
    ``jurisdictions`` (in capitals or not), data of at least ``min_age_days`` and of less than
    ``max_age_days``.
    """

    distrust: float
    readers: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    authorisations: frozenset[str] = frozenset()
    jurisdictions: frozenset[str] = frozenset()
    min_age_days: float | None = None
    max_age_days: float | None = None

    @classmethod
    def from_dict(cls, document: Any, number: int = 1) -> Rule:
        """Rule ``number`` of a policy from JSON values, or a refusal that names the rule and the field."""
        if not isinstance(document, Mapping):
            raise BadInput(f"rule {number} of the policy is not an object with fields.")
        if "trust" in document:
            raise BadInput(
                f'rule {number} of the policy has a field "trust"; how far readers are trusted is said by '
                '"distrust", from 0 (the most) to 1 (the least).'
            )
        for name in document:
            if name not in _FIELDS:
                raise BadInput(
                    f"rule {number} of the policy has a field {shown(name)}; the fields of a rule are "
                    f"{', '.join(_FIELDS)}."
                )
        if "distrust" not in document:
            raise BadInput(f'rule {number} of the policy has no field "distrust", a number from 0 to 1.')
        texts = {name: _texts(document[name], name, number) for name in _LISTS if name in document}
        ages = {name: _number(document[name], name, number, _MOST_DAYS) for name in _AGES if name in document}
        if len(ages) == 2 and not ages["min_age_days"] < ages["max_age_days"]:
            raise BadInput(
                f"rule {number} of the policy never matches: min_age_days is not below max_age_days."
            )
        distrust = _number(document["distrust"], "distrust", number, 1)
        if distrust == 0.0 and not texts.keys() & {"readers", "authorisations"}:
            raise BadInput(
                f"rule {number} of the policy trusts whoever asks the most: a distrust of 0 needs readers or "
                "authorisations."
            )
        return cls(
            distrust=distrust,
            readers=frozenset(texts.get("readers", ())),
            networks=tuple(_network(text, number) for text in texts.get("networks", ())),
            authorisations=frozenset(texts.get("authorisations", ())),
            jurisdictions=frozenset(_jurisdiction(text, number) for text in texts.get("jurisdictions", ())),
            **ages,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; conditions that there are none of are left out."""
        found: dict[str, Any] = {
            "readers": sorted(self.readers),
            "networks": [str(network) for network in self.networks],
            "authorisations": sorted(self.authorisations),
            "jurisdictions": sorted(self.jurisdictions),
        }
        found = {name: values for name, values in found.items() if values}
        ages = {name: getattr(self, name) for name in _AGES if getattr(self, name) is not None}
        return found | ages | {"distrust": self.distrust}

    def matches(self, reader: str | None, context: Context) -> bool | None:
        """Whether every condition holds; None where that hangs on a fact that is not known."""
        jurisdiction = None if context.jurisdiction is None else context.jurisdiction.upper()
        found = [
            _one_of(reader, self.readers),
            self._in_networks(address_of(context.address)),
            self.authorisations <= context.authorisations,
            _one_of(jurisdiction, self.jurisdictions),
            self._of_age(context.age_days),
        ]
        if False in found:
            return False
        return None if None in found else True

    def _in_networks(self, address: Address | None) -> bool | None:
        if not self.networks:
            return True
        return None if address is None else any(address in network for network in self.networks)

    def _of_age(self, days: float | None) -> bool | None:
        if self.min_age_days is None and self.max_age_days is None:
            return True
        if days is None or math.isnan(days):
            return None
        return (self.min_age_days is None or days >= self.min_age_days) and (
            self.max_age_days is None or days < self.max_age_days
        )


def _one_of(fact: str | None, accepted: frozenset[str]) -> bool | None:
    if not accepted:
        return True
    return None if fact is None else fact in accepted


def _texts(values: Any, name: str, number: int) -> list[str]:
    if (
        not isinstance(values, list)
        or not 1 <= len(values) <= _MOST_ENTRIES
        or not all(
            isinstance(one, str) and 1 <= len(one) <= _MOST_TEXT and one.isprintable() for one in values
        )
    ):
        raise BadInput(
            f"{name} of rule {number} of the policy are a list of 1 to {_MOST_ENTRIES:,} texts of 1 to "
            f"{_MOST_TEXT} printable characters; leave them out for no condition."
        )
    return values


def _network(text: str, number: int) -> Network:
    try:
        return network_of(text)
    except ValueError:
        raise BadInput(
            f"networks of rule {number} of the policy are written as 10.0.0.0/8 or 2001:db8::/32, with no "
            f"bit set after the prefix, not as {shown(text)}."
        ) from None


def _jurisdiction(text: str, number: int) -> str:
    if not _CODE.fullmatch(text):
        raise BadInput(
            f"jurisdictions of rule {number} of the policy are codes such as DE, EU or US-CA, "
            f"not {shown(text)}."
        )
    return text.upper()


def _number(value: Any, name: str, number: int, most: int) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not 0 <= value <= most:
        raise BadInput(
            f"{name} of rule {number} of the policy must be a number from 0 to {most:,}, not {shown(value)}."
        )
    return float(value)


def shown(value: Any) -> str:
    """``value`` as a message shows it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
