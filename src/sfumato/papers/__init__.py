"""One module a paper: its tables and figures, regenerated beside ours."""

from sfumato.papers.regenerate import Regenerated, regenerate

__all__ = ["Regenerated", "regenerate"]
