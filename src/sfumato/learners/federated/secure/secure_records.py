"""How a secure sum is written into Flower's records: a ConfigRecord in messages and in a client's context."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.noise_share import NoiseShare
from sfumato.learners.federated.secure.quantiser import Quantiser
from sfumato.learners.federated.secure.secure_terms import SecureSum

__all__ = ["RECORD", "STAGES", "Rule", "asked", "terms_of", "told", "written_terms"]

#: How vectors become integers: put on a grid as they are, or clipped and with a share of noise.
Rule = Quantiser | NoiseShare
#: The name of the record, in messages and in a client's context.
RECORD = "sfumato.secure-sum"
#: What a server asks for, in this order.
STAGES = ("keys", "shares", "input", "unmasking")

_TERMS = ("clients", "length", "threshold", "bits", "session")


def asked(stage: str, **values: Any) -> ConfigRecord:
    """The record with which a server asks for ``stage``."""
    return ConfigRecord({"stage": stage, **values})


def told(content: RecordDict) -> ConfigRecord:
    """The record of a secure sum in ``content``."""
    record = content.config_records.get(RECORD)
    if record is None:
        raise BadInput(
            "a message came without the record of a secure sum: an answer would have shown a plain update."
        )
    return record


def written_terms(terms: SecureSum, rule: Rule) -> dict[str, Any]:
    """Terms and rule as values of a record."""
    return asdict(terms) | asdict(rule)


def terms_of(record: ConfigRecord) -> tuple[SecureSum, Rule]:
    """Terms and rule that a record holds, checked against each other."""
    kind = NoiseShare if "sigma" in record else Quantiser
    wanted = ("clip", "sigma", "honest", "neighbours") if kind is NoiseShare else ("clip", "step")
    try:
        found: dict[str, Any] = {name: record[name] for name in (*_TERMS, *wanted)}
    except KeyError as missing:
        raise BadInput(f"the terms of a secure sum came without {missing.args[0]!r}.") from None
    terms = SecureSum(**{name: found[name] for name in _TERMS})
    rule: Rule = kind(**{name: found[name] for name in wanted})
    rule.check(terms)
    return terms, rule
