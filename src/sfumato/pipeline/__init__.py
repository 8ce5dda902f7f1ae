"""The one path every release takes, from a file to a file.

Names are loaded when they are first used: a cluster gets ready while the rest of this room is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.pipeline.catalogue import MECHANISMS, make_mechanism
    from sfumato.pipeline.engines import opened_engine
    from sfumato.pipeline.folder import ProtectedFolder
    from sfumato.pipeline.located import at_hand
    from sfumato.pipeline.media_mechanisms import MediaMechanisms
    from sfumato.pipeline.place import check_output
    from sfumato.pipeline.planning import Plan, plan
    from sfumato.pipeline.protected import Protected, Report
    from sfumato.pipeline.protection import protect
    from sfumato.pipeline.published import Published
    from sfumato.pipeline.publishers import METHODS
    from sfumato.pipeline.publishing import open_publication, plan_publication, publish

__all__ = [
    "MECHANISMS",
    "METHODS",
    "MediaMechanisms",
    "Plan",
    "Protected",
    "ProtectedFolder",
    "Published",
    "Report",
    "at_hand",
    "check_output",
    "make_mechanism",
    "open_publication",
    "opened_engine",
    "plan",
    "plan_publication",
    "protect",
    "publish",
]

__getattr__ = when_used(
    "sfumato.pipeline",
    {
        "MECHANISMS": "catalogue",
        "METHODS": "publishers",
        "MediaMechanisms": "media_mechanisms",
        "Plan": "planning",
        "Protected": "protected",
        "ProtectedFolder": "folder",
        "Published": "published",
        "Report": "protected",
        "at_hand": "located",
        "check_output": "place",
        "make_mechanism": "catalogue",
        "open_publication": "publishing",
        "opened_engine": "engines",
        "plan": "planning",
        "plan_publication": "publishing",
        "protect": "protection",
        "publish": "publishing",
    },
)
