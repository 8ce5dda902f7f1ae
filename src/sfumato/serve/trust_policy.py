"""Trust policies: rules that map a reader and its circumstances to a level of distrust τ.

A policy is an ordered list of rules. Each names conditions, all of which must hold, and τ from 0, the most
trusted, to 1, the least. The first rule that matches decides; if none does, τ is 1. As JSON::

    {"rules": [{"readers": ["clinic-a"], "networks": ["10.0.0.0/8"], "distrust": 0.0},
               {"authorisations": ["ethics-approved"], "jurisdictions": ["DE", "FR"], "distrust": 0.4},
               {"min_age_days": 3650, "distrust": 0.7}]}

An unknown fact never earns trust: if a rule's match depends on a fact that is missing, both outcomes are
considered and the greater τ is returned.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BadInput
from sfumato.io import single_names
from sfumato.serve.authentication import Address, Network, address_of, network_of, shortened

_LISTS = ("readers", "networks", "authorisations", "jurisdictions")
_AGES = ("min_age_days", "max_age_days")
_FIELDS = (*_LISTS, *_AGES, "distrust")
_MOST_ENTRIES = 1000
_MOST_ENTRY_TEXT = 200
_MOST_DAYS = 1_000_000
_CODE = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")

_MOST_RULES = 1000
_MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class Context:
    """What is known of a request besides its reader; None if unknown.

    ``address`` is its network address, ``authorisations`` what the reader was granted, and ``age_days`` the
    age of the data. None of it may be what the reader merely claims about itself.
    """

    address: str | None = None
    authorisations: frozenset[str] = frozenset()
    jurisdiction: str | None = None
    age_days: float | None = None


@dataclass(frozen=True)
class Rule:
    """τ for readers that meet every condition; None or an empty list is no condition.

    The conditions are: one of ``readers``, an address in one of ``networks``, all of ``authorisations``, one
    of ``jurisdictions`` (in any case), data of at least ``min_age_days`` and of less than ``max_age_days``.
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
        """Return rule ``number`` of a policy from JSON values; a refusal names the rule and the field."""
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
                    f"rule {number} of the policy has a field {shortened(name)}; the fields of a rule are "
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
        """Return JSON values, without empty conditions."""
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
        """Return whether every condition holds; None if that depends on an unknown fact."""
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
            isinstance(one, str) and 1 <= len(one) <= _MOST_ENTRY_TEXT and one.isprintable() for one in values
        )
    ):
        raise BadInput(
            f"{name} of rule {number} of the policy are a list of 1 to {_MOST_ENTRIES:,} texts of 1 to "
            f"{_MOST_ENTRY_TEXT} printable characters; leave them out for no condition."
        )
    return values


def _network(text: str, number: int) -> Network:
    try:
        return network_of(text)
    except ValueError:
        raise BadInput(
            f"networks of rule {number} of the policy are written as 10.0.0.0/8 or 2001:db8::/32, with no "
            f"bit set after the prefix, not as {shortened(text)}."
        ) from None


def _jurisdiction(text: str, number: int) -> str:
    if not _CODE.fullmatch(text):
        raise BadInput(
            f"jurisdictions of rule {number} of the policy are codes such as DE, EU or US-CA, "
            f"not {shortened(text)}."
        )
    return text.upper()


def _number(value: Any, name: str, number: int, most: int) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not 0 <= value <= most:
        raise BadInput(
            f"{name} of rule {number} of the policy must be a number from 0 to {most:,}, "
            f"not {shortened(value)}."
        )
    return float(value)


@dataclass(frozen=True)
class Policy:
    """The ordered rules of one tenant; without rules nobody is trusted."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Policy:
        """Return the policy that ``text`` spells; a refusal names the place that is wrong."""
        if len(text) > _MOST_TEXT:
            raise BadInput(f"a policy has at most {_MOST_TEXT:,} characters, not {len(text):,}.")
        try:
            document = json.loads(text, object_pairs_hook=single_names, parse_constant=_no_number)
        except BadInput:
            raise
        except (ValueError, RecursionError):
            raise BadInput("a policy is written in JSON, which this is not.") from None
        return cls.from_dict(document)

    @classmethod
    def from_dict(cls, document: Any) -> Policy:
        """Return the policy of JSON values."""
        if not isinstance(document, Mapping) or set(document) != {"rules"}:
            raise BadInput('a policy is an object with the one field "rules", a list of rules.')
        rules = document["rules"]
        if not isinstance(rules, list) or len(rules) > _MOST_RULES:
            raise BadInput(f'the field "rules" of a policy is a list of at most {_MOST_RULES:,} rules.')
        return cls(tuple(Rule.from_dict(rule, number) for number, rule in enumerate(rules, 1)))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which an equal policy can be read."""
        return {"rules": [rule.to_dict() for rule in self.rules]}

    def to_json(self) -> str:
        """Return JSON text, the same for equal policies."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def distrust(self, reader: str | None, context: Context) -> float:
        """Return τ of ``reader`` in ``context``: that of the first matching rule, or 1.

        If a rule's match depends on an unknown fact, τ is at least that rule's: nobody gains by hiding who or
        where they are.
        """
        least = 0.0
        for rule in self.rules:
            matched = rule.matches(reader, context)
            if matched is not False:
                least = max(least, rule.distrust)
            if matched is True:
                return least
        return 1.0

    def levels(self) -> list[float]:
        """Return every τ that the policy can give, the most trusted first."""
        return sorted({rule.distrust for rule in self.rules} | {1.0})


def _no_number(name: str) -> Any:
    raise BadInput(f"a policy holds no {name}.")
