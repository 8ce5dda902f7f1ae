"""What the storage proxy serves to whom: the tenant's buckets, its readers, and the tier that each gets."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from starlette.responses import Response

from sfumato.reports.numbers import plain
from sfumato.serve.auth.addresses import address_of
from sfumato.serve.auth.api_keys import ApiKey
from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.pages.endpoints import page
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.proxy.bucket_declarations import Bucket
from sfumato.serve.proxy.buckets import Buckets, shown
from sfumato.serve.reader_tiers import ReaderFacts, context_of
from sfumato.serve.service import Forbidden
from sfumato.serve.tier_files import KINDS, TierTerms

__all__ = ["ROUTES", "access_page"]

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


def _access(visit: Visit) -> Response:
    return access_page(visit)


def access_page(visit: Visit, status: int = 200, **values: Any) -> Response:
    """Buckets and readers, as far as the key may see them, and ``values`` of a form that was sent."""
    buckets = Buckets.of(visit.service)
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
    """A bucket as the page prints it, with the tier that this visit would get."""
    client = visit.request.client
    try:
        tier = plain(buckets.level(visit.caller, bucket, None if client is None else client.host))
    except Forbidden:
        tier = None
    return shown(bucket, visit.caller) | {
        "tiers": [plain(level) for level in bucket.tiers.levels],
        "kinds": [(kind, _in_words(terms), terms.nested) for kind, terms in bucket.files.items()],
        "tier": tier,
    }


def _in_words(terms: TierTerms) -> str:
    """How files of one kind are released, in a line: ε 1 to 8, δ 10⁻⁶, clip 1."""
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
    """What a declaration can name: datasets with a budget, allowed sources, and each kind's parameters."""
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
    """Everybody whom the tenant, its policy or one of its keys names, for those who may see them."""
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
    """The keys that open something now, by their readers; none for those who may not see keys."""
    now, found = datetime.now(UTC), dict[str, list[ApiKey]]()
    for key in visit.service.keys_of(visit.caller) if visit.may("keys") else []:
        if key.reader is not None and key.usable(now):
            found.setdefault(key.reader, []).append(key)
    return found


def _tiers(
    policy: Policy, reader: str, facts: ReaderFacts, address: str | None, buckets: list[Bucket]
) -> list[tuple[str, str, str | None]]:
    """Each bucket with τ of ``reader`` and the tier that it means, None where it means none.

    Without buckets, τ for data of which nobody knows the age.
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


ROUTES = [page("/access", _access, "access")]
