"""What clients ask for in parts of a request, checked the same way however it came."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.mechanisms import describe_parameter, mechanism_names, options_at
from sfumato.privacy import RECORDS
from sfumato.release import ReleaseRequest

#: Of a dataset.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


def parameter_schema() -> dict[str, Any]:
    """Return the properties of ``parameters`` as mechanisms declare them; they refuse nothing."""
    return {
        name: {
            "description": describe_parameter(options),
            "examples": [*dict.fromkeys(word for one in options for word in one.choices)],
        }
        for name, options in options_at("service").items()
    }


class Description(BaseModel):
    """How to release a file."""

    model_config = _STRICT

    mechanism: str | None = Field(
        None, max_length=100, description="By its name.", examples=list(mechanism_names())
    )
    parameters: dict[str, bool | int | float | str | list[float] | dict[str, Any]] = Field(
        default_factory=dict,
        description="Of the mechanism; map may be public boxes.",
        json_schema_extra={"properties": parameter_schema()},
    )
    columns: dict[str, Any] | None = Field(None, description="Of a table: the columns of its schema.")
    array: str | None = Field(None, description="Which array of an archive.")
    alpha: float | None = Field(None, description="Reverse manifold embedding, applied to the release.")
    bounds_from_data: bool = Field(
        False, description="Whether bounds are read off the data, after which nothing is proven."
    )
    disjoint: bool = Field(False, description="Whether no record is in two files of a folder.")
    public_names: bool = Field(False, description="Whether the names of arrays are public.")

    def request(self) -> ReleaseRequest:
        """Return what is wanted."""
        schema = None if self.columns is None else {"columns": self.columns}
        given = self.model_dump(include={"alpha", "bounds_from_data", "disjoint", "public_names"})
        return ReleaseRequest(self.mechanism, self.parameters, schema, self.array, **given)


class AuditDescription(BaseModel):
    """How to attack a release."""

    model_config = _STRICT

    labels: str | None = Field(None, description="What to infer: an array or a column of the original.")
    array: str | None = Field(None, description="Which array of the original.")
    columns: dict[str, Any] | None = Field(None, description="Of tables: the columns of their schema.")
    confidence: float = Field(0.99, gt=0.5, lt=1, description="Of all intervals and bounds.")
    seed: int = Field(0, ge=0, lt=2**32, description="Of the attackers' random choices.")

    def declared(self) -> Schema | None:
        """Return the schema of tables."""
        return None if self.columns is None else Schema.from_dict({"columns": self.columns})


class Paid(BaseModel):
    """The row of the ledger that paid for a release."""

    ledger: str
    number: int
    hash: str


class ReleaseShown(BaseModel):
    """One release: what it states, and what paid for it."""

    id: str
    dataset: str
    name: str
    created: str
    sha256: str
    request: str | None
    deleted: str | None = None
    paid: Paid | None
    statement: dict[str, Any]


class JobProblem(BaseModel):
    """Why a job ended without a result."""

    type: str
    detail: str
    retryable: bool = Field(description="Whether the same may succeed when it is asked for again.")
    spent: bool = Field(description="Whether budget was spent all the same.")


class JobShown(BaseModel):
    """A job; ``result`` has the id of the release, or of the audit, that it made."""

    id: str
    kind: Literal["protect", "audit"]
    dataset: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    cancelling: bool = Field(description="Whether it was cancelled, and ends at its next step.")
    stage: str | None
    share: float | None = Field(
        description="How much of the stage is done, from 0 to 1, where that is known."
    )
    created: str
    ended: str | None
    result: dict[str, Any] | None
    problem: JobProblem | None


class NewBudget(BaseModel):
    """A budget that is to be opened; it never changes afterwards."""

    model_config = _STRICT

    dataset: Name
    epsilon: float = Field(gt=0, le=1e6)
    delta: float = Field(ge=0, lt=1)
    unit: str = RECORDS.unit
    neighbours: str = RECORDS.neighbours


class Budget(BaseModel):
    """What a dataset may still spend."""

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


class NewKey(BaseModel):
    """A key that is to be made."""

    model_config = _STRICT

    name: str
    role: str
    scopes: list[str] | None = None
    datasets: list[str] | None = None
    reader: str | None = None
    expires: datetime | None = None


class NewPolicy(BaseModel):
    """A policy that is to be in force; ``after`` is the version that it replaces."""

    model_config = _STRICT

    policy: dict[str, Any]
    after: int | None = None


_Model = TypeVar("_Model", bound=BaseModel)


def checked(what: str, model: type[_Model], values: Mapping[str, Any] | str | bytes) -> _Model:
    """The ``model`` with these ``values``, or as this JSON says; ``what`` names them in a refusal."""
    try:
        if isinstance(values, str | bytes):
            return model.model_validate_json(values)
        return model.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{what} is malformed: {faults(error.errors())}.") from None


def faults(errors: Sequence[Any]) -> str:
    """Where something is wrong and what is expected there; never the value that came."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors[:5])
