"""One module a paper: its tables and figures, regenerated beside ours."""

from sfumato_reproductions.regenerate import Regenerated, regenerate

__all__ = ["Regenerated", "regenerate"]
