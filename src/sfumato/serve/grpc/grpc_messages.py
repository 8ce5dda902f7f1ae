"""What the service takes and gives, from and to messages."""

from __future__ import annotations

import json
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.auth.api_keys import ApiKey
from sfumato.serve.auth.callers import Caller
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.proxy.bucket_declarations import NewBucket, NewReader
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.registry_policies import VersionedPolicy
from sfumato.serve.release_request import Asked
from sfumato.serve.request_models import (
    AuditDescription,
    Budget,
    Description,
    NewBudget,
    NewKey,
    NewPolicy,
    checked,
)
from sfumato.serve.service import Release

__all__ = [
    "asked_audit",
    "asked_of",
    "budget_message",
    "caller_message",
    "document",
    "facts_of",
    "job_message",
    "key_message",
    "new_bucket",
    "new_budget",
    "new_key",
    "new_policy",
    "page_of",
    "policy_message",
    "reader_message",
    "release_message",
]


def asked_of(described: Any) -> Asked:
    """What a Description asks for."""
    values = {name: _parameter(name, value) for name, value in described.parameters.items()}
    columns = _given(described, "columns_json")
    fields = {
        "mechanism": _given(described, "mechanism"),
        "parameters": values,
        "columns": None if columns is None else _parsed("columns_json", columns),
        "array": _given(described, "array"),
    }
    return checked("asked", Description, fields).asked()


def asked_audit(message: Any) -> AuditDescription:
    """What an audit is asked to do."""
    columns = _given(message, "columns_json")
    fields = {name: _given(message, name) for name in ("labels", "array", "confidence", "seed")}
    fields["columns"] = None if columns is None else _parsed("columns_json", columns)
    given = {name: value for name, value in fields.items() if value is not None}
    return checked("asked", AuditDescription, given)


def page_of(message: Any) -> dict[str, Any]:
    """The words of a page that is asked for."""
    words = {name: _given(message, name) for name in ("limit", "cursor")}
    return {name: value for name, value in words.items() if value is not None}


def new_budget(message: Any) -> dict[str, Any]:
    """The words of a budget that is to be opened."""
    fields = {"dataset": message.dataset, "epsilon": message.epsilon, "delta": message.delta}
    for name in ("unit", "neighbours"):
        if message.HasField(name):
            fields[name] = getattr(message, name)
    return checked("the budget", NewBudget, fields).model_dump()


def new_key(message: Any) -> dict[str, Any]:
    """The words of a key that is to be made."""
    fields = {
        "name": message.name,
        "role": message.role,
        "scopes": list(message.scopes.names) if message.HasField("scopes") else None,
        "datasets": list(message.datasets.names) if message.HasField("datasets") else None,
        "reader": _given(message, "reader"),
        "expires": _given(message, "expires"),
    }
    return checked("the key", NewKey, fields).model_dump()


def new_bucket(message: Any) -> NewBucket:
    """The bucket that is to be declared."""
    return checked("the bucket", NewBucket, _parsed("json", message.json))


def facts_of(message: Any) -> ReaderFacts:
    """What is to be said of a reader."""
    fields = {
        "authorisations": list(message.authorisations),
        "jurisdiction": _given(message, "jurisdiction"),
    }
    new = checked("the reader", NewReader, fields)
    return ReaderFacts.of(new.authorisations, new.jurisdiction)


def reader_message(reader: str, facts: ReaderFacts) -> pb.Reader:
    """What is said of a reader."""
    return pb.Reader(reader=reader, **facts.to_dict())


def new_policy(message: Any) -> NewPolicy:
    """The policy that is to be in force."""
    fields = {"policy": _parsed("policy_json", message.policy_json), "after": _given(message, "after")}
    return checked("the policy", NewPolicy, fields)


def budget_message(balance: dict[str, Any]) -> pb.Budget:
    """What a dataset may still spend."""
    return pb.Budget(**Budget(**balance).model_dump())


def caller_message(caller: Caller) -> pb.Caller:
    """Who asks."""
    return pb.Caller(
        tenant=caller.tenant,
        key=caller.key_id,
        role=caller.role,
        scopes=_names(caller.scopes),
        datasets=_names(caller.datasets),
        reader=caller.reader,
    )


def key_message(key: ApiKey) -> pb.Key:
    """A key; not its secret."""
    fields = key.to_dict() | {"scopes": _names(key.scopes), "datasets": _names(key.datasets)}
    return pb.Key(**fields)


def policy_message(found: VersionedPolicy) -> pb.Policy:
    """A policy and its number."""
    return pb.Policy(version=found.version, policy_json=json.dumps(found.policy.to_dict()))


def release_message(release: Release) -> pb.Release:
    """A release; not where it lies."""
    fields = release.to_dict()
    paid, statement = fields.pop("paid"), fields.pop("statement")
    return pb.Release(
        **fields,
        paid_json=None if paid is None else json.dumps(paid),
        statement_json=json.dumps(statement),
    )


def job_message(job: Job) -> pb.Job:
    """A job."""
    fields = job.to_dict()
    for name in ("result", "problem"):
        value = fields.pop(name)
        fields[f"{name}_json"] = None if value is None else json.dumps(value)
    return pb.Job(**fields)


def document(found: Any) -> pb.Document:
    """Something as JSON."""
    return pb.Document(json=json.dumps(found))


def _given(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _names(names: frozenset[str] | None) -> pb.Names | None:
    return None if names is None else pb.Names(names=sorted(names))


def _parameter(name: str, parameter: Any) -> bool | int | float | str | list[float]:
    kind = parameter.WhichOneof("value")
    if kind is None:
        raise BadInput(f"`{name}` must be a number, a word or a list of numbers.", parameter=name)
    value: bool | int | float | str = getattr(parameter, kind)
    return list(parameter.numbers.numbers) if kind == "numbers" else value


def _parsed(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{what} is not JSON.") from None
