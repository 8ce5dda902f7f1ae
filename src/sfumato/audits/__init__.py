"""Attacks on releases and models, and the lower bounds on ε that they prove.

``sf.audit(release, original=X)`` runs the standard audit of a data release; with ``mechanism_only=True`` it
draws the mechanism anew on worst-case rows and needs no data. ``audit_model`` and ``audit_learner`` audit
models, ``distinguish`` plays a mechanism on its worst pair of neighbours, ``self_test`` checks the auditor.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.audits.auditor_check import self_test as self_test
    from sfumato.audits.canary_game import OneRunAudit as OneRunAudit
    from sfumato.audits.canary_game import one_run_audit as one_run_audit
    from sfumato.audits.distinguishing_game import distinguish as distinguish
    from sfumato.audits.embedding_attacks import recover_pairs as recover_pairs
    from sfumato.audits.findings import Audit as Audit
    from sfumato.audits.findings import Finding as Finding
    from sfumato.audits.learner_audit import SHADOWS as SHADOWS
    from sfumato.audits.learner_audit import ClassLeakage as ClassLeakage
    from sfumato.audits.learner_audit import LearnerAudit as LearnerAudit
    from sfumato.audits.learner_audit import audit_learner as audit_learner
    from sfumato.audits.learner_audit import checked_shadows as checked_shadows
    from sfumato.audits.learner_audit import class_leakage as class_leakage
    from sfumato.audits.lower_bounds import gaussian_bound as gaussian_bound
    from sfumato.audits.lower_bounds import threshold_bound as threshold_bound
    from sfumato.audits.lower_bounds import usual_delta as usual_delta
    from sfumato.audits.memorised_records import stored_records as stored_records
    from sfumato.audits.model_attacks import CONFIGURATIONS as CONFIGURATIONS
    from sfumato.audits.model_attacks import Configuration as Configuration
    from sfumato.audits.model_attacks import audit_model as audit_model
    from sfumato.audits.model_attacks import class_scorer as class_scorer
    from sfumato.audits.model_attacks import cross_fit as cross_fit
    from sfumato.audits.model_attacks import model_differences as model_differences
    from sfumato.audits.one_run import one_run_bound as one_run_bound
    from sfumato.audits.one_run import one_run_gaussian_bound as one_run_gaussian_bound
    from sfumato.audits.predictions import Predictions as Predictions
    from sfumato.audits.publication_attacks import Canaries as Canaries
    from sfumato.audits.publication_attacks import audit_publication as audit_publication
    from sfumato.audits.publication_attacks import nearest_of_class as nearest_of_class
    from sfumato.audits.publication_attacks import refutable as refutable
    from sfumato.audits.publication_attacks import surely_more as surely_more
    from sfumato.audits.record_attacks import informed_inverter as informed_inverter
    from sfumato.audits.record_attacks import membership_attacks as membership_attacks
    from sfumato.audits.record_attacks import posterior_mean as posterior_mean
    from sfumato.audits.record_attacks import ridge_reconstruction as ridge_reconstruction
    from sfumato.audits.release_audit import audit as audit
    from sfumato.audits.shadow_models import lira as lira
    from sfumato.audits.shadow_models import rmia as rmia
    from sfumato.audits.shadow_models import shadow_attack as shadow_attack
    from sfumato.audits.speakers import speaker_recognition as speaker_recognition

__all__ = [
    "CONFIGURATIONS",
    "SHADOWS",
    "Audit",
    "Canaries",
    "ClassLeakage",
    "Configuration",
    "Finding",
    "LearnerAudit",
    "OneRunAudit",
    "Predictions",
    "audit",
    "audit_learner",
    "audit_model",
    "audit_publication",
    "checked_shadows",
    "class_leakage",
    "class_scorer",
    "cross_fit",
    "distinguish",
    "gaussian_bound",
    "informed_inverter",
    "lira",
    "membership_attacks",
    "model_differences",
    "nearest_of_class",
    "one_run_audit",
    "one_run_bound",
    "one_run_gaussian_bound",
    "posterior_mean",
    "recover_pairs",
    "refutable",
    "ridge_reconstruction",
    "rmia",
    "self_test",
    "shadow_attack",
    "speaker_recognition",
    "stored_records",
    "surely_more",
    "threshold_bound",
    "usual_delta",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "self_test": "auditor_check",
            "OneRunAudit": "canary_game",
            "one_run_audit": "canary_game",
            "distinguish": "distinguishing_game",
            "recover_pairs": "embedding_attacks",
            "Audit": "findings",
            "Finding": "findings",
            "SHADOWS": "learner_audit",
            "ClassLeakage": "learner_audit",
            "LearnerAudit": "learner_audit",
            "audit_learner": "learner_audit",
            "checked_shadows": "learner_audit",
            "class_leakage": "learner_audit",
            "gaussian_bound": "lower_bounds",
            "threshold_bound": "lower_bounds",
            "usual_delta": "lower_bounds",
            "stored_records": "memorised_records",
            "CONFIGURATIONS": "model_attacks",
            "Configuration": "model_attacks",
            "audit_model": "model_attacks",
            "class_scorer": "model_attacks",
            "cross_fit": "model_attacks",
            "model_differences": "model_attacks",
            "one_run_bound": "one_run",
            "one_run_gaussian_bound": "one_run",
            "Predictions": "predictions",
            "Canaries": "publication_attacks",
            "audit_publication": "publication_attacks",
            "nearest_of_class": "publication_attacks",
            "refutable": "publication_attacks",
            "surely_more": "publication_attacks",
            "informed_inverter": "record_attacks",
            "membership_attacks": "record_attacks",
            "posterior_mean": "record_attacks",
            "ridge_reconstruction": "record_attacks",
            "audit": "release_audit",
            "lira": "shadow_models",
            "rmia": "shadow_models",
            "shadow_attack": "shadow_models",
            "speaker_recognition": "speakers",
        },
    )
