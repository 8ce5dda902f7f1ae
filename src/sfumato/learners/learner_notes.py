"""What statements of learners say of everything that is used beside the records: it is public, or prior."""

from __future__ import annotations

__all__ = ["public_notes"]


def public_notes(prior: str = "all parameters") -> tuple[str, str]:
    """Notes on the number of records, which is public, and on what is ``prior`` to them, in words."""
    return (
        "the number of records is public",
        f"{prior} must not have been learned from these records",
    )
