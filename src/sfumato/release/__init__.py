"""The one path every release takes, from a file to a file.

Names are loaded when they are first used: a cluster gets ready while the rest of this room is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.release.catalogue import MECHANISMS, make_mechanism
    from sfumato.release.engines import opened_engine
    from sfumato.release.folder import ProtectedFolder
    from sfumato.release.locations import at_hand
    from sfumato.release.media_mechanisms import MediaMechanisms
    from sfumato.release.output_lock import check_output
    from sfumato.release.path import protect
    from sfumato.release.protected_file import Protected, Report
    from sfumato.release.publication import open_publication, plan_publication, publish
    from sfumato.release.published_files import Published
    from sfumato.release.publisher_catalogue import METHODS
    from sfumato.release.release_plan import Plan, plan
    from sfumato.release.stored_model import load_model

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
    "load_model",
    "make_mechanism",
    "open_publication",
    "opened_engine",
    "plan",
    "plan_publication",
    "protect",
    "publish",
]

__getattr__ = when_used(
    "sfumato.release",
    {
        "MECHANISMS": "catalogue",
        "METHODS": "publisher_catalogue",
        "MediaMechanisms": "media_mechanisms",
        "Plan": "release_plan",
        "Protected": "protected_file",
        "ProtectedFolder": "folder",
        "Published": "published_files",
        "Report": "protected_file",
        "at_hand": "locations",
        "check_output": "output_lock",
        "load_model": "stored_model",
        "make_mechanism": "catalogue",
        "open_publication": "publication",
        "opened_engine": "engines",
        "plan": "release_plan",
        "plan_publication": "publication",
        "protect": "path",
        "publish": "publication",
    },
)
