"""The one path every release takes, from a file to a file."""

from sfumato.pipeline.catalogue import MECHANISMS, make_mechanism
from sfumato.pipeline.folder import ProtectedFolder
from sfumato.pipeline.media_mechanisms import MediaMechanisms
from sfumato.pipeline.place import check_output
from sfumato.pipeline.planning import Plan, plan
from sfumato.pipeline.protected import Protected, Report
from sfumato.pipeline.protection import protect

__all__ = [
    "MECHANISMS",
    "MediaMechanisms",
    "Plan",
    "Protected",
    "ProtectedFolder",
    "Report",
    "check_output",
    "make_mechanism",
    "plan",
    "protect",
]
