"""Whom a tenant trusts how far: rules from a reader and the circumstances to their distrust τ.

A policy is an ordered list of rules. Each names conditions, all of which must hold, and τ from 0, the most
trusted, to 1, the least. The first rule that matches decides; where none does, τ is 1. As JSON::

    {"rules": [{"readers": ["clinic-a"], "networks": ["10.0.0.0/8"], "distrust": 0.0},
               {"authorisations": ["ethics-approved"], "jurisdictions": ["DE", "FR"], "distrust": 0.4},
               {"min_age_days": 3650, "distrust": 0.7}]}

What is not known of a reader never earns trust: where a rule matches or not by a fact that is missing, both
are considered and the greater τ is answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BadInput
from sfumato.io.strict_json import single_names
from sfumato.serve.auth.trust_rule import Context, Rule

__all__ = ["Context", "Policy", "Rule"]

_MOST_RULES = 1000
_MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class Policy:
    """The rules of one tenant, in the order in which they are asked; without rules nobody is trusted."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Policy:
        """The policy that ``text`` spells, or a refusal that names the place that is wrong."""
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
        """The policy of JSON values."""
        if not isinstance(document, Mapping) or set(document) != {"rules"}:
            raise BadInput('a policy is an object with the one field "rules", a list of rules.')
        rules = document["rules"]
        if not isinstance(rules, list) or len(rules) > _MOST_RULES:
            raise BadInput(f'the field "rules" of a policy is a list of at most {_MOST_RULES:,} rules.')
        return cls(tuple(Rule.from_dict(rule, number) for number, rule in enumerate(rules, 1)))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, from which an equal policy can be read."""
        return {"rules": [rule.to_dict() for rule in self.rules]}

    def to_json(self) -> str:
        """As text, the same for equal policies."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def distrust(self, reader: str | None, context: Context) -> float:
        """τ of ``reader`` in ``context``: that of the first rule that matches, 1 where none does.

        Of a rule that may match, for a fact that is not known, it is at least that rule's τ: nobody gains by
        hiding who or where they are.
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
        """Every τ that the policy can answer, the most trusted first."""
        return sorted({rule.distrust for rule in self.rules} | {1.0})


def _no_number(name: str) -> Any:
    raise BadInput(f"a policy holds no {name}.")
