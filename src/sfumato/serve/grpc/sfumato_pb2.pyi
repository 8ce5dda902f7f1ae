# Generated from sfumato.proto: python -m sfumato.serve.grpc.generate
# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBudgetsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReleasesRequest(_message.Message):
    __slots__ = ("limit", "cursor")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("limit", "cursor")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBucketsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReadersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSigningKeyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SigningKey(_message.Message):
    __slots__ = ("pem",)
    PEM_FIELD_NUMBER: _ClassVar[int]
    pem: bytes
    def __init__(self, pem: _Optional[bytes] = ...) -> None: ...

class DatasetRequest(_message.Message):
    __slots__ = ("dataset",)
    DATASET_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    def __init__(self, dataset: _Optional[str] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class AuditRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class KeyRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class Caller(_message.Message):
    __slots__ = ("tenant", "key", "role", "scopes", "datasets", "reader")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    key: str
    role: str
    scopes: Names
    datasets: Names
    reader: str
    def __init__(self, tenant: _Optional[str] = ..., key: _Optional[str] = ..., role: _Optional[str] = ..., scopes: _Optional[_Union[Names, _Mapping]] = ..., datasets: _Optional[_Union[Names, _Mapping]] = ..., reader: _Optional[str] = ...) -> None: ...

class NewBudget(_message.Message):
    __slots__ = ("dataset", "epsilon", "delta", "unit", "neighbours")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    def __init__(self, dataset: _Optional[str] = ..., epsilon: _Optional[float] = ..., delta: _Optional[float] = ..., unit: _Optional[str] = ..., neighbours: _Optional[str] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("dataset", "epsilon", "delta", "unit", "neighbours", "state", "spends", "open_holds", "used", "left", "left_pure")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SPENDS_FIELD_NUMBER: _ClassVar[int]
    OPEN_HOLDS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    LEFT_PURE_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    state: str
    spends: int
    open_holds: int
    used: float
    left: float
    left_pure: float
    def __init__(self, dataset: _Optional[str] = ..., epsilon: _Optional[float] = ..., delta: _Optional[float] = ..., unit: _Optional[str] = ..., neighbours: _Optional[str] = ..., state: _Optional[str] = ..., spends: _Optional[int] = ..., open_holds: _Optional[int] = ..., used: _Optional[float] = ..., left: _Optional[float] = ..., left_pure: _Optional[float] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("flag", "whole", "number", "word", "numbers", "json")
    FLAG_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    flag: bool
    whole: int
    number: float
    word: str
    numbers: Numbers
    json: str
    def __init__(self, flag: _Optional[bool] = ..., whole: _Optional[int] = ..., number: _Optional[float] = ..., word: _Optional[str] = ..., numbers: _Optional[_Union[Numbers, _Mapping]] = ..., json: _Optional[str] = ...) -> None: ...

class Numbers(_message.Message):
    __slots__ = ("numbers",)
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, numbers: _Optional[_Iterable[float]] = ...) -> None: ...

class Description(_message.Message):
    __slots__ = ("mechanism", "parameters", "columns_json", "array", "alpha", "bounds_from_data", "disjoint", "public_names")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Parameter
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Parameter, _Mapping]] = ...) -> None: ...
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_JSON_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FROM_DATA_FIELD_NUMBER: _ClassVar[int]
    DISJOINT_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    mechanism: str
    parameters: _containers.MessageMap[str, Parameter]
    columns_json: str
    array: str
    alpha: float
    bounds_from_data: bool
    disjoint: bool
    public_names: bool
    def __init__(self, mechanism: _Optional[str] = ..., parameters: _Optional[_Mapping[str, Parameter]] = ..., columns_json: _Optional[str] = ..., array: _Optional[str] = ..., alpha: _Optional[float] = ..., bounds_from_data: _Optional[bool] = ..., disjoint: _Optional[bool] = ..., public_names: _Optional[bool] = ...) -> None: ...

class AskedFile(_message.Message):
    __slots__ = ("dataset", "name", "asked")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    name: str
    asked: Description
    def __init__(self, dataset: _Optional[str] = ..., name: _Optional[str] = ..., asked: _Optional[_Union[Description, _Mapping]] = ...) -> None: ...

class FilePart(_message.Message):
    __slots__ = ("file", "chunk")
    FILE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    file: AskedFile
    chunk: bytes
    def __init__(self, file: _Optional[_Union[AskedFile, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class ReleasedPart(_message.Message):
    __slots__ = ("release", "chunk")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    release: Release
    chunk: bytes
    def __init__(self, release: _Optional[_Union[Release, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class AskedAudit(_message.Message):
    __slots__ = ("dataset", "release", "certificate_json", "labels", "array", "columns_json", "confidence", "seed")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_JSON_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    release: str
    certificate_json: str
    labels: str
    array: str
    columns_json: str
    confidence: float
    seed: int
    def __init__(self, dataset: _Optional[str] = ..., release: _Optional[str] = ..., certificate_json: _Optional[str] = ..., labels: _Optional[str] = ..., array: _Optional[str] = ..., columns_json: _Optional[str] = ..., confidence: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class AuditFile(_message.Message):
    __slots__ = ("part", "name")
    PART_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    part: str
    name: str
    def __init__(self, part: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class AuditPart(_message.Message):
    __slots__ = ("asked", "file", "chunk")
    ASKED_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    asked: AskedAudit
    file: AuditFile
    chunk: bytes
    def __init__(self, asked: _Optional[_Union[AskedAudit, _Mapping]] = ..., file: _Optional[_Union[AuditFile, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "kind", "dataset", "state", "stage", "share", "created", "ended", "result_json", "problem_json", "cancelling")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_JSON_FIELD_NUMBER: _ClassVar[int]
    CANCELLING_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    dataset: str
    state: str
    stage: str
    share: float
    created: str
    ended: str
    result_json: str
    problem_json: str
    cancelling: bool
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., dataset: _Optional[str] = ..., state: _Optional[str] = ..., stage: _Optional[str] = ..., share: _Optional[float] = ..., created: _Optional[str] = ..., ended: _Optional[str] = ..., result_json: _Optional[str] = ..., problem_json: _Optional[str] = ..., cancelling: _Optional[bool] = ...) -> None: ...

class CertifiedFile(_message.Message):
    __slots__ = ("name", "certificate_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    certificate_json: str
    def __init__(self, name: _Optional[str] = ..., certificate_json: _Optional[str] = ...) -> None: ...

class CertifiedPart(_message.Message):
    __slots__ = ("file", "chunk")
    FILE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    file: CertifiedFile
    chunk: bytes
    def __init__(self, file: _Optional[_Union[CertifiedFile, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("id", "dataset", "name", "created", "sha256", "request", "paid_json", "statement_json", "deleted")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PAID_JSON_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_JSON_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    id: str
    dataset: str
    name: str
    created: str
    sha256: str
    request: str
    paid_json: str
    statement_json: str
    deleted: str
    def __init__(self, id: _Optional[str] = ..., dataset: _Optional[str] = ..., name: _Optional[str] = ..., created: _Optional[str] = ..., sha256: _Optional[str] = ..., request: _Optional[str] = ..., paid_json: _Optional[str] = ..., statement_json: _Optional[str] = ..., deleted: _Optional[str] = ...) -> None: ...

class Verification(_message.Message):
    __slots__ = ("holds", "json")
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    holds: bool
    json: str
    def __init__(self, holds: _Optional[bool] = ..., json: _Optional[str] = ...) -> None: ...

class NewKey(_message.Message):
    __slots__ = ("name", "role", "scopes", "datasets", "reader", "expires")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    scopes: Names
    datasets: Names
    reader: str
    expires: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., scopes: _Optional[_Union[Names, _Mapping]] = ..., datasets: _Optional[_Union[Names, _Mapping]] = ..., reader: _Optional[str] = ..., expires: _Optional[str] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("id", "name", "role", "scopes", "datasets", "reader", "created", "expires", "revoked")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    role: str
    scopes: Names
    datasets: Names
    reader: str
    created: str
    expires: str
    revoked: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., scopes: _Optional[_Union[Names, _Mapping]] = ..., datasets: _Optional[_Union[Names, _Mapping]] = ..., reader: _Optional[str] = ..., created: _Optional[str] = ..., expires: _Optional[str] = ..., revoked: _Optional[str] = ...) -> None: ...

class MadeKey(_message.Message):
    __slots__ = ("key", "token")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    key: Key
    token: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class NewPolicy(_message.Message):
    __slots__ = ("policy_json", "after")
    POLICY_JSON_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    policy_json: str
    after: int
    def __init__(self, policy_json: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("version", "policy_json")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_JSON_FIELD_NUMBER: _ClassVar[int]
    version: int
    policy_json: str
    def __init__(self, version: _Optional[int] = ..., policy_json: _Optional[str] = ...) -> None: ...

class BucketRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Tier(_message.Message):
    __slots__ = ("tier", "tiers")
    TIER_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    tier: float
    tiers: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, tier: _Optional[float] = ..., tiers: _Optional[_Iterable[float]] = ...) -> None: ...

class ReaderRequest(_message.Message):
    __slots__ = ("reader",)
    READER_FIELD_NUMBER: _ClassVar[int]
    reader: str
    def __init__(self, reader: _Optional[str] = ...) -> None: ...

class Reader(_message.Message):
    __slots__ = ("reader", "authorisations", "jurisdiction")
    READER_FIELD_NUMBER: _ClassVar[int]
    AUTHORISATIONS_FIELD_NUMBER: _ClassVar[int]
    JURISDICTION_FIELD_NUMBER: _ClassVar[int]
    reader: str
    authorisations: _containers.RepeatedScalarFieldContainer[str]
    jurisdiction: str
    def __init__(self, reader: _Optional[str] = ..., authorisations: _Optional[_Iterable[str]] = ..., jurisdiction: _Optional[str] = ...) -> None: ...

class AccessKey(_message.Message):
    __slots__ = ("access_key_id", "secret_access_key", "path")
    ACCESS_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_ACCESS_KEY_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    access_key_id: str
    secret_access_key: str
    path: str
    def __init__(self, access_key_id: _Optional[str] = ..., secret_access_key: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...
