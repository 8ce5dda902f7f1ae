"""The one path every release takes, from a file to a file."""

from sfumato.pipeline.catalogue import MECHANISMS, make_mechanism
from sfumato.pipeline.engines import opened_engine
from sfumato.pipeline.folder import ProtectedFolder
from sfumato.pipeline.located import at_hand, located
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
    "located",
    "make_mechanism",
    "open_publication",
    "opened_engine",
    "plan",
    "plan_publication",
    "protect",
    "publish",
]
