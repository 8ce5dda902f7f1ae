"""Pages of a tenant: quotas and keys, the trust policy, buckets, readers and access keys.

The policy is edited as text and checked before it is put in force. The access page shows the tenant's buckets
and readers, and the tier that each reader gets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.reports import plain
from sfumato.serve.authentication import OPERATIONS, ROLES, ApiKey, address_of
from sfumato.serve.pages.page_request import Form, Visit, form, page
from sfumato.serve.proxy.buckets import Bucket, NewBucket
from sfumato.serve.reader_tiers import KINDS, ReaderFacts, TierTerms, context_of
from sfumato.serve.refusals import Forbidden
from sfumato.serve.service import NewKey, checked
from sfumato.serve.trust_policy import Policy, Rule

_MOST_READERS = 200
_SIGNS = {"epsilon": "ε", "delta": "δ"}
_NEW_BUCKET = {
    "name": "",
    "source": "",
    "dataset": "",
    "tiers": "0, 0.5, 1",
    "collected": "",
    "public_names": "",
    "files": '{"array": {"parameters": {\n  "epsilon": [1, 8], "delta": 1e-6, "clip": 1}}}',
}
_HOLDER_FIELDS = ("holder", "datasets", "expires")
_KEY_FIELDS = ("name", "role", "datasets", "reader", "expires")
_QUOTAS = {
    "requests_per_minute": "requests a minute",
    "bytes_per_day": "bytes a day",
    "jobs_at_once": "jobs at the same time",
    "bytes_kept": "stored bytes",
}
_ROLES = {
    "owner": "everything: budgets, keys and policy too",
    "publisher": "plans and makes releases",
    "auditor": "reads everything and audits; spends only as a reader of buckets",
}


# Quotas and keys


def _tenant(visit: Visit, status: int = 200, given: Form | None = None, **values: Any) -> Response:
    registry, now = visit.service.registry, datetime.now(UTC)
    quotas = vars(registry.quotas(visit.caller.tenant))
    keys = visit.service.keys_of(visit.caller) if visit.may("keys") else []
    keys.sort(key=lambda key: (not key.is_usable(now), key.name))
    typed = given or Form()
    shown = {"refusal": None, "token": None, "made": None} | values
    return visit.page(
        "keys.html",
        status=status,
        here="tenant",
        tenant=registry.tenant(visit.caller.tenant),
        quotas=[
            (words, "no limit" if quotas[name] is None else plain(quotas[name]))
            for name, words in _QUOTAS.items()
        ],
        keys=[(key, _state(key, now)) for key in keys],
        roles=_ROLES,
        operations=[
            (name, [role for role in ROLES if name in ROLES[role]]) for name in OPERATIONS if visit.may(name)
        ],
        today=now.date().isoformat(),
        typed=typed.texts(_KEY_FIELDS),
        ticked=typed.several("scopes"),
        **shown,
    )


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked is not None:
        return "revoked"
    return "usable" if key.is_usable(now) else "expired"


def _make_key(visit: Visit, given: Form) -> Response:
    typed = given.texts(_KEY_FIELDS)
    new = NewKey(
        name=typed["name"],
        role=typed["role"],
        scopes=given.several("scopes") or None,
        datasets=_names(typed["datasets"]),
        reader=typed["reader"] or None,
        expires=_end_of(typed["expires"]),
    )
    made, token = visit.service.make_key(visit.caller, new)
    return _tenant(visit, 201, token=token, made=made)


def _names(text: str) -> list[str] | None:
    """Return names that are separated by commas or spaces; None if there are none."""
    return text.replace(",", " ").split() or None


def _end_of(day: str) -> datetime | None:
    """Return the last moment of the chosen day, in UTC."""
    if not day:
        return None
    try:
        return datetime.combine(datetime.fromisoformat(day).date(), time.max, UTC)
    except ValueError:
        raise BadInput("a key expires at the end of a day, as in 2030-01-31.") from None


def _revoke_key(visit: Visit, given: Form, key: str) -> Response:
    visit.service.revoke_key(visit.caller, key)
    return visit.then("tenant")


# The policy


def rule_in_words(rule: Rule) -> str:
    """Return one rule as a sentence."""
    conditions = [
        ("the reader is", " or ", sorted(rule.readers)),
        ("the address lies in", " or ", [str(network) for network in rule.networks]),
        ("the reader has", " and ", sorted(rule.authorisations)),
        ("the jurisdiction is", " or ", sorted(rule.jurisdictions)),
    ]
    said = [f"{words} {joint.join(values)}" for words, joint, values in conditions if values]
    if rule.min_age_days is not None:
        said.append(f"the data is {plain(rule.min_age_days)} days old or older")
    if rule.max_age_days is not None:
        said.append(f"the data is younger than {plain(rule.max_age_days)} days")
    return f"if {' and '.join(said)}" if said else "always"


def policy_text(policy: Policy) -> str:
    """Return a policy as editable JSON with one rule on each line."""
    rules = [json.dumps(rule, ensure_ascii=False) for rule in policy.to_dict()["rules"]]
    lines = ",\n".join(f"  {rule}" for rule in rules)
    return f'{{"rules": [\n{lines}\n]}}' if rules else '{"rules": []}'


def _policy(visit: Visit, status: int = 200, given: Form | None = None, **values: Any) -> Response:
    """Return the page of the policy in force, with the typed text in the editor.

    After a conflict, the next try replaces the version that is shown beside the text.
    """
    found = visit.service.policy(visit.caller)
    conflict = status == 409
    return visit.page(
        "policy.html",
        status=status,
        here="policy",
        version=found.version,
        created=found.created,
        rules=[(rule, rule_in_words(rule), plain(rule.distrust)) for rule in found.policy.rules],
        text=policy_text(found.policy) if given is None else given.text("policy"),
        after=found.version if given is None or conflict else given.text("after"),
        conflict=conflict,
        **({"refusal": None, "valid": None} | values),
    )


def _save_policy(visit: Visit, given: Form) -> Response:
    policy, after = Policy.from_json(given.text("policy")), given.text("after")
    if given.text("do") == "check":
        count = len(policy.rules)
        valid = f"this is a policy of {count} rule{'' if count == 1 else 's'}; it is not in force yet."
        return _policy(visit, given=given, valid=valid)
    visit.service.set_policy(visit.caller, policy, int(after) if after.isdecimal() else None)
    return visit.then("policy")


# Buckets and readers


def _access(
    visit: Visit, status: int = 200, given: Form | None = None, refused: str = "", **values: Any
) -> Response:
    """Return the page of buckets and readers that the key may see.

    ``refused`` names the form that was ``given``: bucket, reader or holder.
    """
    buckets = visit.service.buckets.buckets(visit.caller)
    typed = {name: given if name == refused else None for name in ("bucket", "reader", "holder")}
    bucket, holder = typed["bucket"], typed["holder"] or Form()
    shown = {"refusal": None, "access": None, "refused": refused} | values
    return visit.page(
        "access.html",
        status=status,
        here="access",
        tenant=visit.service.registry.tenant(visit.caller.tenant),
        buckets=[_shown_bucket(visit, one) for one in buckets],
        bucket=_NEW_BUCKET if bucket is None else bucket.texts(_NEW_BUCKET),
        holder=holder.texts(_HOLDER_FIELDS),
        **_for_declaring(visit),
        **_for_readers(visit, buckets, typed["reader"]),
        **shown,
    )


def _shown_bucket(visit: Visit, bucket: Bucket) -> dict[str, Any]:
    """Return a bucket for display, with the tier of this visit."""
    client, buckets = visit.request.client, visit.service.buckets
    try:
        tier = plain(buckets.level(visit.caller, bucket, None if client is None else client.host))
    except Forbidden:
        tier = None
    return buckets.shown(visit.caller, bucket.name) | {
        "tiers": [plain(level) for level in bucket.tiers.levels],
        "kinds": [(kind, _terms_in_words(terms), terms.nested) for kind, terms in bucket.files.items()],
        "tier": tier,
    }


def _terms_in_words(terms: TierTerms) -> str:
    """Return how files of one kind are released, in a line: ε 1 to 8, δ 10⁻⁶, clip 1."""
    given = terms.parameters
    parts = [f"{_SIGNS.get(name, name)} {_value(given[name])}" for name in KINDS[terms.kind] if name in given]
    if terms.columns:
        parts.append(f"columns {', '.join(terms.columns)}")
    if terms.array:
        parts.append(f"array {terms.array}")
    return ", ".join(parts)


def _value(value: bool | float | str | list[float]) -> str:
    if isinstance(value, list):
        return " to ".join(plain(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else plain(value)


def _for_declaring(visit: Visit) -> dict[str, Any]:
    """Return the choices of a declaration: datasets with a budget, allowed sources, parameters by kind."""
    if not (visit.may("budget") and visit.may("read")):
        return {"declares": False}
    names = [one["dataset"] for one in visit.service.budgets(visit.caller)]
    return {
        "declares": True,
        "datasets": [(name, name) for name in names if visit.may("budget", name)],
        "prefixes": visit.service.buckets.prefixes(visit.caller),
        "kinds": KINDS,
    }


def _for_readers(visit: Visit, buckets: Sequence[Bucket], given: Form | None) -> dict[str, Any]:
    """Return every reader that the tenant, its policy or one of its keys names, if the key may see them."""
    if not visit.may("policy"):
        return {"readers": []}
    known, policy = visit.service.buckets.readers(visit.caller), visit.service.policy(visit.caller).policy
    now, keys = datetime.now(UTC), defaultdict(list)
    for key in visit.service.keys_of(visit.caller) if visit.may("keys") else []:
        if key.reader is not None and key.is_usable(now):
            keys[key.reader].append(key)
    names = sorted({*known, *keys, *(name for rule in policy.rules for name in rule.readers)})
    query = visit.request.query_params
    asked, changed = query.get("address", "").strip(), query.get("reader", "")
    address = asked if address_of(asked) else None
    return {
        "readers": [
            {
                "name": name,
                "facts": known.get(name),
                "tiers": _tiers(policy, name, known.get(name, ReaderFacts()), address, buckets),
                "keys": keys.get(name, []),
            }
            for name in names[:_MOST_READERS]
        ],
        "more_readers": max(0, len(names) - _MOST_READERS),
        "by_address": any(rule.networks for rule in policy.rules),
        "address": asked,
        "no_address": bool(asked) and address is None,
        "reader": {"reader": changed} | known.get(changed, ReaderFacts()).to_dict()
        if given is None
        else _typed_reader(given),
        "today": now.date().isoformat(),
    }


def _tiers(
    policy: Policy, reader: str, facts: ReaderFacts, address: str | None, buckets: Sequence[Bucket]
) -> list[tuple[str, str, str | None]]:
    """Return each bucket with τ of ``reader`` and its tier, None if it has none.

    Without buckets, return τ for data of unknown age.
    """

    def distrust(collected: date | None) -> float:
        return policy.distrust(reader, context_of(facts, address, collected))

    if not buckets:
        return [("", plain(distrust(None)), None)]
    by_day = {bucket.collected: distrust(bucket.collected) for bucket in buckets}
    found = [(bucket, by_day[bucket.collected]) for bucket in buckets]
    levels = [bucket.tiers.level_for(tau) for bucket, tau in found]
    return [
        (bucket.name, plain(tau), None if level is None else plain(level))
        for (bucket, tau), level in zip(found, levels, strict=True)
    ]


def _declare(visit: Visit, given: Form) -> Response:
    typed: dict[str, Any] = given.texts(_NEW_BUCKET)
    try:
        typed["tiers"] = [float(part) for part in typed["tiers"].replace(",", " ").split()]
    except ValueError:
        raise BadInput("tiers are numbers from 0 to 1 with commas between them, as in 0, 0.5, 1.") from None
    try:
        typed["files"] = json.loads(typed["files"])
    except (ValueError, RecursionError):
        raise BadInput("how files are released is declared in JSON, which this is not.") from None
    typed |= {"collected": typed["collected"] or None, "public_names": bool(given.several("public_names"))}
    visit.service.buckets.declare(visit.caller, checked("the bucket", NewBucket, typed))
    return visit.then("access")


def _remove_bucket(visit: Visit, given: Form, bucket: str) -> Response:
    visit.service.buckets.remove(visit.caller, bucket)
    return visit.then("access")


def _typed_reader(given: Form) -> dict[str, Any]:
    lines = [line.strip() for line in given.text("authorisations").splitlines()]
    return {
        "reader": given.text("reader"),
        "authorisations": [line for line in lines if line],
        "jurisdiction": given.text("jurisdiction") or None,
    }


def _set_reader(visit: Visit, given: Form) -> Response:
    typed = _typed_reader(given)
    reader = typed.pop("reader")
    visit.service.buckets.say(visit.caller, reader, checked("the reader", ReaderFacts, typed))
    return visit.then("access", part="readers")


def _forget_reader(visit: Visit, given: Form) -> Response:
    visit.service.buckets.say(visit.caller, given.exact("reader"), None)
    return visit.then("access", part="readers")


def _make_access_key(visit: Visit, given: Form) -> Response:
    """Create a key that only reads a reader's tier of buckets, and show the secret that signs as it."""
    typed = given.texts(_HOLDER_FIELDS)
    if not typed["holder"]:
        raise BadInput("an access key is a reader's; name the reader.")
    new = NewKey(
        name=typed["holder"],
        role="auditor",
        scopes=["tier"],
        datasets=_names(typed["datasets"]),
        reader=typed["holder"],
        expires=_end_of(typed["expires"]),
    )
    key, _ = visit.service.make_key(visit.caller, new)
    return _show_secret(visit, given, key.id, status=201)


def _show_secret(visit: Visit, given: Form, key: str, status: int = 200) -> Response:
    found, secret = visit.service.buckets.key_and_secret(visit.caller, key)
    return _access(visit, status, access=found, secret=secret)


def _revoke_access_key(visit: Visit, given: Form, key: str) -> Response:
    visit.service.revoke_key(visit.caller, key)
    return visit.then("access", part="readers")


ROUTES = [
    page("/tenant", _tenant, "tenant"),
    form("/tenant/keys", _make_key, "make-key", again=_tenant),
    form("/tenant/keys/{key}/revoke", _revoke_key, "revoke-key"),
    page("/policy", _policy, "policy"),
    form("/policy", _save_policy, "save-policy", again=_policy),
    page("/access", _access, "access"),
    form("/access/buckets", _declare, "declare-bucket", again=partial(_access, refused="bucket")),
    form("/access/buckets/{bucket}/remove", _remove_bucket, "remove-bucket"),
    form("/access/readers", _set_reader, "say-of-reader", again=partial(_access, refused="reader")),
    form("/access/readers/forget", _forget_reader, "forget-reader"),
    form("/access/keys", _make_access_key, "make-access-key", again=partial(_access, refused="holder")),
    form("/access/keys/{key}/secret", _show_secret, "show-secret"),
    form("/access/keys/{key}/revoke", _revoke_access_key, "revoke-access-key"),
]
