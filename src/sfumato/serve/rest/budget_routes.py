"""Budgets: opened once, looked at often."""

from typing import Any

from fastapi import APIRouter

from sfumato.serve.request_models import Budget, Name, NewBudget
from sfumato.serve.rest.dependencies import Asking, Here

__all__ = ["router"]

router = APIRouter(tags=["budgets"])


@router.get("/budgets")
def budgets(service: Here, asking: Asking) -> list[Budget]:
    """All budgets that the key may see."""
    return [Budget(**one) for one in service.budgets(asking)]


@router.post("/budgets", status_code=201)
def open_budget(service: Here, asking: Asking, new: NewBudget) -> Budget:
    """Open a budget; the same one again changes nothing."""
    return Budget(**service.open_budget(asking, **new.model_dump()))


@router.get("/budgets/{dataset}")
def budget(service: Here, asking: Asking, dataset: Name) -> Budget:
    """What a dataset may still spend."""
    return Budget(**service.budget(asking, dataset))


@router.get("/budgets/{dataset}/history")
def history(service: Here, asking: Asking, dataset: Name) -> list[dict[str, Any]]:
    """Every entry, oldest first."""
    return service.history(asking, dataset)
