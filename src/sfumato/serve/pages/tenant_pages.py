"""Pages of a tenant: quotas and keys, the trust policy, buckets, readers and access keys.

The policy is edited as text and checked before it is put in force. The access page shows the tenant's buckets
and readers, and the tier that each reader gets.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.reports import plain
from sfumato.serve.authentication import OPERATIONS, ROLES, ApiKey, address_of
from sfumato.serve.pages.page_request import Form, Visit, form, page
from sfumato.serve.proxy.buckets import Bucket, Buckets, NewBucket, NewReader
from sfumato.serve.reader_tiers import KINDS, ReaderFacts, TierTerms, context_of
from sfumato.serve.refusals import Conflict, Forbidden, message_of
from sfumato.serve.service import checked
from sfumato.serve.trust_policy import Policy, Rule

_MOST_READERS = 200
_SIGNS = {"epsilon": "ε", "delta": "δ"}
_BUCKET = {
    "name": "",
    "source": "",
    "dataset": "",
    "tiers": "0, 0.5, 1",
    "collected": "",
    "public_names": "",
    "files": '{"array": {"parameters": {\n  "epsilon": [1, 8], "delta": 1e-6, "clip": 1}}}',
}
_HOLDER = {"holder": "", "datasets": "", "expires": ""}

_BUCKET_FIELDS = ("name", "source", "dataset", "tiers", "collected", "files")
_QUOTAS = {
    "requests_per_minute": "requests a minute",
    "bytes_per_day": "bytes a day",
    "jobs_at_once": "jobs at the same time",
    "bytes_kept": "bytes that are kept",
}
_KEY_FIELDS = ("name", "role", "datasets", "reader", "expires")
_ROLES = {
    "owner": "everything: budgets, keys and policy too",
    "publisher": "plans and makes releases",
    "auditor": "reads everything and audits; spends only as a reader of buckets",
}


def _access(visit: Visit) -> Response:
    return access_page(visit)


def access_page(visit: Visit, status: int = 200, **values: Any) -> Response:
    """Return the page of buckets and readers that the key may see, with ``values`` of a submitted form."""
    buckets = visit.service.buckets
    found = buckets.buckets(visit.caller)
    return visit.page(
        "access.html",
        status=status,
        here="access",
        tenant=visit.service.registry.tenant(visit.caller.tenant),
        buckets=[_told(visit, buckets, bucket) for bucket in found],
        **(
            {"bucket": _BUCKET, "holder": _HOLDER, "refused": "", "refusal": None, "access": None}
            | _for_declaring(visit, buckets)
            | _of_readers(visit, buckets, found)
            | values
        ),
    )


def _told(visit: Visit, buckets: Buckets, bucket: Bucket) -> dict[str, Any]:
    """Return a bucket for display, with the tier of this visit."""
    client = visit.request.client
    try:
        tier = plain(buckets.level(visit.caller, bucket, None if client is None else client.host))
    except Forbidden:
        tier = None
    return buckets.shown(visit.caller, bucket.name) | {
        "tiers": [plain(level) for level in bucket.tiers.levels],
        "kinds": [(kind, _in_words(terms), terms.nested) for kind, terms in bucket.files.items()],
        "tier": tier,
    }


def _in_words(terms: TierTerms) -> str:
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


def _for_declaring(visit: Visit, buckets: Buckets) -> dict[str, Any]:
    """Return the choices of a declaration: datasets with a budget, allowed sources, parameters by kind."""
    if not (visit.may("budget") and visit.may("read")):
        return {"declares": False}
    names = [one["dataset"] for one in visit.service.budgets(visit.caller)]
    return {
        "declares": True,
        "datasets": [(name, name) for name in names if visit.may("budget", name)],
        "prefixes": buckets.prefixes(visit.caller),
        "kinds": KINDS,
    }


def _of_readers(visit: Visit, buckets: Buckets, found: list[Bucket]) -> dict[str, Any]:
    """Return every reader that the tenant, its policy or one of its keys names, if the key may see them."""
    if not visit.may("policy"):
        return {"readers": []}
    said, policy = buckets.readers(visit.caller), visit.service.policy(visit.caller).policy
    keys = _usable_keys(visit)
    in_rules = {name for rule in policy.rules for name in rule.readers}
    names = sorted({*said, *keys, *in_rules})
    asked = visit.request.query_params.get("address", "").strip()
    address = asked if address_of(asked) else None
    changed = visit.request.query_params.get("reader", "")
    return {
        "readers": [
            {
                "name": name,
                "facts": said.get(name),
                "tiers": _tiers(policy, name, said.get(name, ReaderFacts()), address, found),
                "keys": keys.get(name, []),
            }
            for name in names[:_MOST_READERS]
        ],
        "more_readers": max(0, len(names) - _MOST_READERS),
        "by_address": any(rule.networks for rule in policy.rules),
        "address": asked,
        "no_address": bool(asked) and address is None,
        "reader": {"reader": changed} | said.get(changed, ReaderFacts()).to_dict(),
        "today": datetime.now(UTC).date().isoformat(),
    }


def _usable_keys(visit: Visit) -> dict[str, list[ApiKey]]:
    """Return the valid keys by reader; empty if the key may not see keys."""
    now, found = datetime.now(UTC), dict[str, list[ApiKey]]()
    for key in visit.service.keys_of(visit.caller) if visit.may("keys") else []:
        if key.reader is not None and key.is_usable(now):
            found.setdefault(key.reader, []).append(key)
    return found


def _tiers(
    policy: Policy, reader: str, facts: ReaderFacts, address: str | None, buckets: list[Bucket]
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
    return [(bucket.name, plain(tau), _level(bucket, tau)) for bucket, tau in found]


def _level(bucket: Bucket, distrust: float) -> str | None:
    level = bucket.tiers.level_for(distrust)
    return None if level is None else plain(level)


_ACCESS_ROUTES = [page("/access", _access, "access")]


def _declare(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _BUCKET_FIELDS}
    try:
        read = {
            "tiers": _parsed_tiers(typed["tiers"]),
            "files": _files(typed["files"]),
            "collected": typed["collected"] or None,
            "public_names": bool(given.several("public_names")),
        }
        visit.service.buckets.declare(visit.caller, checked("the bucket", NewBucket, typed | read))
    except BadInput as error:
        status = 409 if isinstance(error, Conflict) else 400
        typed |= {"public_names": given.text("public_names")}
        return access_page(visit, status, bucket=typed, refused="bucket", refusal=message_of(error))
    return visit.then("access")


def _parsed_tiers(text: str) -> list[float]:
    """Return the numbers in a text, separated by commas or spaces."""
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise BadInput("tiers are numbers from 0 to 1 with commas between them, as in 0, 0.5, 1.") from None


def _files(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("how files are released is declared in JSON, which this is not.") from None


def _remove(visit: Visit, given: Form, bucket: str) -> Response:
    visit.service.buckets.remove(visit.caller, bucket)
    return visit.then("access")


_BUCKET_ROUTES = [
    form("/access/buckets", _declare, "declare-bucket"),
    form("/access/buckets/{bucket}/remove", _remove, "remove-bucket"),
]


def _tenant(visit: Visit) -> Response:
    return _tenant_page(visit)


def _tenant_page(visit: Visit, status: int = 200, **values: Any) -> Response:
    registry, now = visit.service.registry, datetime.now(UTC)
    quotas = registry.quotas(visit.caller.tenant)
    keys = visit.service.keys_of(visit.caller) if visit.may("keys") else []
    return visit.page(
        "keys.html",
        status=status,
        here="tenant",
        tenant=registry.tenant(visit.caller.tenant),
        quotas=[
            (said, "no limit" if getattr(quotas, name) is None else plain(getattr(quotas, name)))
            for name, said in _QUOTAS.items()
        ],
        keys=[
            (key, _state(key, now))
            for key in sorted(keys, key=lambda one: (not one.is_usable(now), one.name))
        ],
        roles=_ROLES,
        operations=[
            (name, [role for role in ROLES if name in ROLES[role]]) for name in OPERATIONS if visit.may(name)
        ],
        today=now.date().isoformat(),
        **(
            {
                "typed": dict.fromkeys(_KEY_FIELDS, ""),
                "ticked": [],
                "refusal": None,
                "token": None,
                "made": None,
            }
            | values
        ),
    )


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked is not None:
        return "revoked"
    return "usable" if key.is_usable(now) else "expired"


def _make_key(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _KEY_FIELDS}
    scopes = given.several("scopes")
    try:
        made, token = visit.service.make_key(
            visit.caller,
            name=typed["name"],
            role=typed["role"],
            scopes=scopes or None,
            datasets=typed["datasets"].replace(",", " ").split() or None,
            reader=typed["reader"] or None,
            expires=end_of(typed["expires"]),
        )
    except BadInput as error:
        return _tenant_page(visit, 400, typed=typed, ticked=scopes, refusal=message_of(error))
    return _tenant_page(visit, 201, token=token, made=made)


def end_of(day: str) -> datetime | None:
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


_KEY_ROUTES = [
    page("/tenant", _tenant, "tenant"),
    form("/tenant/keys", _make_key, "make-key"),
    form("/tenant/keys/{key}/revoke", _revoke_key, "revoke-key"),
]


def in_words(rule: Rule) -> str:
    """Return one rule as a sentence."""
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
    """Return a policy as editable JSON with one rule on each line."""
    rules = [json.dumps(rule, ensure_ascii=False) for rule in policy.to_dict()["rules"]]
    lines = ",\n".join(f"  {rule}" for rule in rules)
    return f'{{"rules": [\n{lines}\n]}}' if rules else '{"rules": []}'


def _either(words: list[str]) -> str:
    return " or ".join(words)


def _both(words: list[str]) -> str:
    return " and ".join(words)


def _policy(visit: Visit) -> Response:
    return _policy_page(visit)


def _policy_page(visit: Visit, status: int = 200, **values: Any) -> Response:
    """Return the page of the policy in force, with ``text`` in the editor.

    Saving replaces version ``after``.
    """
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
            return _policy_page(visit, text=text, after=after, valid=said)
        visit.service.set_policy(visit.caller, policy, int(after) if after.isdecimal() else None)
    except Conflict as error:
        # What was typed stays; the next try replaces what is shown beside it now.
        return _policy_page(visit, 409, text=text, refusal=message_of(error), conflict=True)
    except BadInput as error:
        return _policy_page(visit, 400, text=text, after=after, refusal=message_of(error))
    return visit.then("policy")


_POLICY_ROUTES = [page("/policy", _policy, "policy"), form("/policy", _save, "save-policy")]


def _set_reader(visit: Visit, given: Form) -> Response:
    reader, jurisdiction = given.text("reader"), given.text("jurisdiction")
    lines = [line.strip() for line in given.text("authorisations").splitlines()]
    typed = {"authorisations": [line for line in lines if line], "jurisdiction": jurisdiction or None}
    try:
        facts = checked("the reader", NewReader, typed).facts()
        visit.service.buckets.say(visit.caller, reader, facts)
    except BadInput as error:
        return access_page(
            visit, 400, reader={"reader": reader} | typed, refused="reader", refusal=message_of(error)
        )
    return visit.then("access", part="readers")


def _forget_reader(visit: Visit, given: Form) -> Response:
    visit.service.buckets.say(visit.caller, given.exact("reader"), None)
    return visit.then("access", part="readers")


def _make_access_key(visit: Visit, given: Form) -> Response:
    """Create a key that reads a reader's tier of buckets and nothing else.

    Show the secret that signs as it.
    """
    typed = {name: given.text(name) for name in ("holder", "datasets", "expires")}
    try:
        if not typed["holder"]:
            raise BadInput("an access key is a reader's; name the reader.")
        key, _ = visit.service.make_key(
            visit.caller,
            name=typed["holder"],
            role="auditor",
            scopes=["tier"],
            datasets=typed["datasets"].replace(",", " ").split() or None,
            reader=typed["holder"],
            expires=end_of(typed["expires"]),
        )
    except BadInput as error:
        return access_page(visit, 400, holder=typed, refused="holder", refusal=message_of(error))
    return _access_key_page(visit, key.id, 201)


def _secret(visit: Visit, given: Form, key: str) -> Response:
    return _access_key_page(visit, key, 200)


def _access_key_page(visit: Visit, key_id: str, status: int) -> Response:
    """Return the page with the access key of a key."""
    found, secret = visit.service.buckets.key_and_secret(visit.caller, key_id)
    return access_page(visit, status, access=found, secret=secret)


def _revoke_access_key(visit: Visit, given: Form, key: str) -> Response:
    visit.service.revoke_key(visit.caller, key)
    return visit.then("access", part="readers")


_READER_ROUTES = [
    form("/access/readers", _set_reader, "say-of-reader"),
    form("/access/readers/forget", _forget_reader, "forget-reader"),
    form("/access/keys", _make_access_key, "make-access-key"),
    form("/access/keys/{key}/secret", _secret, "show-secret"),
    form("/access/keys/{key}/revoke", _revoke_access_key, "revoke-access-key"),
]

ROUTES = [*_KEY_ROUTES, *_POLICY_ROUTES, *_ACCESS_ROUTES, *_BUCKET_ROUTES, *_READER_ROUTES]
