"""What clients ask for in parts of a request, checked the same way however it came."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sfumato.errors import BadInput
from sfumato.serve.asked import Asked

__all__ = ["Budget", "Description", "Name", "NewBudget", "NewKey", "NewPolicy", "checked", "faults"]

#: Of a dataset.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


class Description(BaseModel):
    """How to release a file."""

    model_config = _STRICT

    mechanism: str | None = Field(None, description="By its name, as on the command line.")
    parameters: dict[str, bool | int | float | str | list[float]] = Field(
        default_factory=dict, description="Of the mechanism: epsilon, delta, clip, bounds, unit, …"
    )
    columns: dict[str, Any] | None = Field(None, description="Of a table: the columns of its schema.")
    array: str | None = Field(None, description="Which array of an archive.")

    def asked(self) -> Asked:
        """The same for the service."""
        schema = None if self.columns is None else {"columns": self.columns}
        return Asked(self.mechanism, self.parameters, schema, self.array)


class NewBudget(BaseModel):
    """A budget that is to be opened; it never changes afterwards."""

    model_config = _STRICT

    dataset: Name
    epsilon: float = Field(gt=0, le=1e6)
    delta: float = Field(ge=0, lt=1)
    unit: str = "record"
    neighbours: str = "replace"


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


def checked(what: str, model: type[_Model], values: Mapping[str, Any] | str) -> _Model:
    """The ``model`` with these ``values``, or as this JSON says; ``what`` names them in a refusal."""
    try:
        if isinstance(values, str):
            return model.model_validate_json(values)
        return model.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{what} is malformed: {faults(error.errors())}.") from None


def faults(errors: Sequence[Any]) -> str:
    """Where something is wrong and what is expected there; never the value that came."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors[:5])
