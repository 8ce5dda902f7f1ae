"""Whom the tenant trusts how far: the policy as text, checked before it is put in force."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.reports.numbers import plain
from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.auth.trust_rule import Rule
from sfumato.serve.pages.endpoints import form, page
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.refusal_codes import said_of
from sfumato.serve.registry_errors import Conflict

__all__ = ["ROUTES", "as_text", "in_words"]


def in_words(rule: Rule) -> str:
    """One rule as a sentence."""
    parts = [
        (f"the reader is {_either(sorted(rule.readers))}", rule.readers),
        (f"the address lies in {_either([str(one) for one in rule.networks])}", rule.networks),
        (f"the reader has {_both(sorted(rule.authorisations))}", rule.authorisations),
        (f"the jurisdiction is {_either(sorted(rule.jurisdictions))}", rule.jurisdictions),
    ]
    said = [text for text, condition in parts if condition]
    if rule.min_age_days is not None:
        said.append(f"the data is {plain(rule.min_age_days)} days old or older")
    if rule.max_age_days is not None:
        said.append(f"the data is younger than {plain(rule.max_age_days)} days")
    return f"if {_both(said)}" if said else "always"


def as_text(policy: Policy) -> str:
    """A policy as people edit it: JSON with one rule a line."""
    rules = [json.dumps(rule, ensure_ascii=False) for rule in policy.to_dict()["rules"]]
    lines = ",\n".join(f"  {rule}" for rule in rules)
    return f'{{"rules": [\n{lines}\n]}}' if rules else '{"rules": []}'


def _either(words: list[str]) -> str:
    return " or ".join(words)


def _both(words: list[str]) -> str:
    return " and ".join(words)


def _policy(visit: Visit) -> Response:
    return _shown(visit)


def _shown(visit: Visit, status: int = 200, **values: Any) -> Response:
    """The policy in force, and ``text`` in the editor; ``after`` is the version that saving replaces."""
    found = visit.service.policy(visit.caller)
    return visit.page(
        "policy.html",
        status=status,
        here="policy",
        version=found.version,
        created=found.created,
        rules=[(rule, in_words(rule), plain(rule.distrust)) for rule in found.policy.rules],
        **(
            {
                "text": as_text(found.policy),
                "after": found.version,
                "refusal": None,
                "conflict": False,
                "valid": None,
            }
            | values
        ),
    )


def _save(visit: Visit, given: Form) -> Response:
    text, after = given.text("policy"), given.text("after")
    try:
        policy = Policy.from_json(text)
        if given.text("do") == "check":
            count = len(policy.rules)
            said = f"this is a policy of {count} rule{'' if count == 1 else 's'}; it is not in force yet."
            return _shown(visit, text=text, after=after, valid=said)
        visit.service.set_policy(visit.caller, policy, int(after) if after.isdecimal() else None)
    except Conflict as error:
        # What was typed stays; the next try replaces what is shown beside it now.
        return _shown(visit, 409, text=text, refusal=said_of(error), conflict=True)
    except BadInput as error:
        return _shown(visit, 400, text=text, after=after, refusal=said_of(error))
    return visit.then("policy")


ROUTES = [page("/policy", _policy, "policy"), form("/policy", _save, "save-policy")]
