"""The one path every release takes, from a file to a file.

Names are loaded when they are first used: a cluster gets ready while the rest of this room is loaded.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.release.catalogue import METHODS as METHODS
    from sfumato.release.client_budget import ClientBudgets as ClientBudgets
    from sfumato.release.engines import opened_engine as opened_engine
    from sfumato.release.federation import Federation as Federation
    from sfumato.release.file_audit import Compared as Compared
    from sfumato.release.file_audit import audit_files as audit_files
    from sfumato.release.file_audit import audit_mechanism_of as audit_mechanism_of
    from sfumato.release.file_audit import command_line as command_line
    from sfumato.release.file_audit import media_entry as media_entry
    from sfumato.release.file_audit import read_evidence as read_evidence
    from sfumato.release.file_audit import refuse_media as refuse_media
    from sfumato.release.media_files import DeclaredMaps as DeclaredMaps
    from sfumato.release.media_files import MediaMechanisms as MediaMechanisms
    from sfumato.release.missing_spends import charge_again as charge_again
    from sfumato.release.missing_spends import lost_spends as lost_spends
    from sfumato.release.missing_spends import require_newest as require_newest
    from sfumato.release.path import HeldPayment as HeldPayment
    from sfumato.release.path import Payment as Payment
    from sfumato.release.path import Protected as Protected
    from sfumato.release.path import Report as Report
    from sfumato.release.path import check_output as check_output
    from sfumato.release.path import release as release
    from sfumato.release.path import silent as silent
    from sfumato.release.protection import HeldFile as HeldFile
    from sfumato.release.protection import protect as protect
    from sfumato.release.ray_engine import keep_ray_private as keep_ray_private
    from sfumato.release.record_files import OneFile as OneFile
    from sfumato.release.record_files import RecordFiles as RecordFiles
    from sfumato.release.record_files import SourceFile as SourceFile
    from sfumato.release.record_files import TableFile as TableFile
    from sfumato.release.record_files import rows_at_once as rows_at_once
    from sfumato.release.release_plan import plan as plan
    from sfumato.release.request import ReleaseRequest as ReleaseRequest
    from sfumato.release.request import bounds_pair as bounds_pair
    from sfumato.release.request import keyed as keyed
    from sfumato.release.request import located as located
    from sfumato.release.request import refuse_schema as refuse_schema
    from sfumato.release.stored_model import load_model as load_model
    from sfumato.release.verbs import federate as federate
    from sfumato.release.verbs import learn as learn
    from sfumato.release.verbs import options_of as options_of
    from sfumato.release.verbs import publish as publish
    from sfumato.release.verbs import verify as verify

__all__ = [
    "METHODS",
    "ClientBudgets",
    "Compared",
    "DeclaredMaps",
    "Federation",
    "HeldFile",
    "HeldPayment",
    "MediaMechanisms",
    "OneFile",
    "Payment",
    "Protected",
    "RecordFiles",
    "ReleaseRequest",
    "Report",
    "SourceFile",
    "TableFile",
    "audit_files",
    "audit_mechanism_of",
    "bounds_pair",
    "charge_again",
    "check_output",
    "command_line",
    "federate",
    "keep_ray_private",
    "keyed",
    "learn",
    "load_model",
    "located",
    "lost_spends",
    "media_entry",
    "opened_engine",
    "options_of",
    "plan",
    "protect",
    "publish",
    "read_evidence",
    "refuse_media",
    "refuse_schema",
    "release",
    "require_newest",
    "rows_at_once",
    "silent",
    "verify",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "METHODS": "catalogue",
            "ClientBudgets": "client_budget",
            "opened_engine": "engines",
            "Federation": "federation",
            "Compared": "file_audit",
            "audit_files": "file_audit",
            "audit_mechanism_of": "file_audit",
            "command_line": "file_audit",
            "media_entry": "file_audit",
            "read_evidence": "file_audit",
            "refuse_media": "file_audit",
            "DeclaredMaps": "media_files",
            "MediaMechanisms": "media_files",
            "charge_again": "missing_spends",
            "lost_spends": "missing_spends",
            "require_newest": "missing_spends",
            "HeldPayment": "path",
            "Payment": "path",
            "Protected": "path",
            "Report": "path",
            "check_output": "path",
            "release": "path",
            "silent": "path",
            "HeldFile": "protection",
            "protect": "protection",
            "keep_ray_private": "ray_engine",
            "OneFile": "record_files",
            "RecordFiles": "record_files",
            "SourceFile": "record_files",
            "TableFile": "record_files",
            "rows_at_once": "record_files",
            "plan": "release_plan",
            "ReleaseRequest": "request",
            "bounds_pair": "request",
            "keyed": "request",
            "located": "request",
            "refuse_schema": "request",
            "load_model": "stored_model",
            "federate": "verbs",
            "learn": "verbs",
            "options_of": "verbs",
            "publish": "verbs",
            "verify": "verbs",
        },
    )
