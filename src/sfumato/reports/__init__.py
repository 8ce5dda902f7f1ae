"""Reports, certificates and packs: what was promised and found, readable, signed, bound to the bytes.

``sf.report([release], "report.html")`` writes one HTML file about releases and their audits.

Names are loaded when they are first used: a worker that signs certificates needs no pages and no ledger.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.reports.certificate import Certificate as Certificate
    from sfumato.reports.certificate import KeyRing as KeyRing
    from sfumato.reports.certificate import PublicKey as PublicKey
    from sfumato.reports.certificate import SigningKey as SigningKey
    from sfumato.reports.certificate import VerificationFailed as VerificationFailed
    from sfumato.reports.certificate import certificate_file as certificate_file
    from sfumato.reports.certificate import default_home as default_home
    from sfumato.reports.certificate import file_digest as file_digest
    from sfumato.reports.columns import WEAK_ATTACK as WEAK_ATTACK
    from sfumato.reports.compliance_pack import entries_csv as entries_csv
    from sfumato.reports.compliance_pack import verify_pack as verify_pack
    from sfumato.reports.compliance_pack import write_pack as write_pack
    from sfumato.reports.contact_sheet import ContactSheet as ContactSheet
    from sfumato.reports.contact_sheet import Pictures as Pictures
    from sfumato.reports.contact_sheet import png as png
    from sfumato.reports.page import environment as environment
    from sfumato.reports.page import render_report as render_report
    from sfumato.reports.page import report as report
    from sfumato.reports.page import write_report as write_report
    from sfumato.reports.page_text import at_least as at_least
    from sfumato.reports.page_text import at_most as at_most
    from sfumato.reports.page_text import plain as plain
    from sfumato.reports.page_text import share as share
    from sfumato.reports.plots import NARROW as NARROW
    from sfumato.reports.plots import WIDE as WIDE
    from sfumato.reports.plots import Axes as Axes
    from sfumato.reports.plots import Canvas as Canvas
    from sfumato.reports.plots import Frontier as Frontier
    from sfumato.reports.plots import FrontierPlot as FrontierPlot
    from sfumato.reports.plots import Point as Point
    from sfumato.reports.plots import Scale as Scale
    from sfumato.reports.plots import Tick as Tick
    from sfumato.reports.release_entry import Budget as Budget
    from sfumato.reports.release_entry import BurnDown as BurnDown
    from sfumato.reports.release_entry import Entry as Entry
    from sfumato.reports.release_entry import Step as Step
    from sfumato.reports.release_entry import thinned as thinned
    from sfumato.reports.sections import ReleaseSection as ReleaseSection
    from sfumato.reports.utility_section import ClassTable as ClassTable
    from sfumato.reports.verification import MANIFEST as MANIFEST
    from sfumato.reports.verification import Check as Check
    from sfumato.reports.verification import PackVerification as PackVerification
    from sfumato.reports.verification import Verification as Verification
    from sfumato.reports.verification import certificate_of as certificate_of
    from sfumato.reports.verification import verify as verify

__all__ = [
    "MANIFEST",
    "NARROW",
    "WEAK_ATTACK",
    "WIDE",
    "Axes",
    "Budget",
    "BurnDown",
    "Canvas",
    "Certificate",
    "Check",
    "ClassTable",
    "ContactSheet",
    "Entry",
    "Frontier",
    "FrontierPlot",
    "KeyRing",
    "PackVerification",
    "Pictures",
    "Point",
    "PublicKey",
    "ReleaseSection",
    "Scale",
    "SigningKey",
    "Step",
    "Tick",
    "Verification",
    "VerificationFailed",
    "at_least",
    "at_most",
    "certificate_file",
    "certificate_of",
    "default_home",
    "entries_csv",
    "environment",
    "file_digest",
    "plain",
    "png",
    "render_report",
    "report",
    "share",
    "thinned",
    "verify",
    "verify_pack",
    "write_pack",
    "write_report",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Certificate": "certificate",
            "KeyRing": "certificate",
            "PublicKey": "certificate",
            "SigningKey": "certificate",
            "VerificationFailed": "certificate",
            "certificate_file": "certificate",
            "default_home": "certificate",
            "file_digest": "certificate",
            "WEAK_ATTACK": "columns",
            "entries_csv": "compliance_pack",
            "verify_pack": "compliance_pack",
            "write_pack": "compliance_pack",
            "ContactSheet": "contact_sheet",
            "Pictures": "contact_sheet",
            "png": "contact_sheet",
            "environment": "page",
            "render_report": "page",
            "report": "page",
            "write_report": "page",
            "at_least": "page_text",
            "at_most": "page_text",
            "plain": "page_text",
            "share": "page_text",
            "NARROW": "plots",
            "WIDE": "plots",
            "Axes": "plots",
            "Canvas": "plots",
            "Frontier": "plots",
            "FrontierPlot": "plots",
            "Point": "plots",
            "Scale": "plots",
            "Tick": "plots",
            "Budget": "release_entry",
            "BurnDown": "release_entry",
            "Entry": "release_entry",
            "Step": "release_entry",
            "thinned": "release_entry",
            "ReleaseSection": "sections",
            "ClassTable": "utility_section",
            "MANIFEST": "verification",
            "Check": "verification",
            "PackVerification": "verification",
            "Verification": "verification",
            "certificate_of": "verification",
            "verify": "verification",
        },
    )
