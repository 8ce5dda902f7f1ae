"""Attacks on releases and models, and the lower bounds on ε that they prove.

``sf.audit(release, original=X)`` runs the standard audit of a data release, ``audit_mechanism`` that of its
mechanism on worst-case rows, which needs no data; ``audit_model`` that of a model,
``distinguish`` plays a mechanism on its worst pair of neighbours, ``self_test`` checks the auditor.
"""

from sfumato.audits.attribute_attack import attribute_inference
from sfumato.audits.audit_result import Audit
from sfumato.audits.averaged_releases import averaging_attack
from sfumato.audits.bound import Bound
from sfumato.audits.canary_game import OneRunAudit, one_run_audit
from sfumato.audits.class_leakage import ClassLeakage, class_leakage
from sfumato.audits.column_pairing import pairing_attack, recover_pairs
from sfumato.audits.compactdp_attacks import (
    CONFIGURATIONS,
    Configuration,
    CrossFitted,
    attack_configurations,
    cross_fit,
)
from sfumato.audits.distinguishing_game import (
    classifier_scores,
    distinguish,
    likelihood_scores,
    play,
    worst_pair,
)
from sfumato.audits.findings import Finding
from sfumato.audits.gaussian_fit import gaussian_bound
from sfumato.audits.held_out_members import HeldOut, held_out
from sfumato.audits.heuristics import Heuristic, from_advantage, from_auc, from_rates
from sfumato.audits.information_leakage import Information, mutual_information
from sfumato.audits.label_only import label_only
from sfumato.audits.lira import lira
from sfumato.audits.loss_threshold import class_scorer, class_threshold, loss_threshold
from sfumato.audits.mechanism_audit import audit_mechanism, mechanism_of
from sfumato.audits.membership import (
    likelihood_membership,
    logistic_membership,
    nearest_neighbour_membership,
    paper_membership,
)
from sfumato.audits.model_audit import audit_model, one_run_finding
from sfumato.audits.model_canaries import LearnerAudit, audit_learner
from sfumato.audits.model_differences import model_differences
from sfumato.audits.one_run import best_guesses, one_run_bound
from sfumato.audits.one_run_tradeoff import one_run_gaussian_bound
from sfumato.audits.pair_game import pair_games
from sfumato.audits.predictions import Predictions
from sfumato.audits.reconstruction import informed_inverter, posterior_mean, ridge_reconstruction
from sfumato.audits.reidentification import likelihood_matching, nearest_matching
from sfumato.audits.release_audit import audit
from sfumato.audits.repeated_noise import noise_across_rows, one_noise_two_scales, shared_noise
from sfumato.audits.rmia import rmia
from sfumato.audits.roc import auc, auc_interval, roc_curve, tpr_at_fpr
from sfumato.audits.scale_invariance import ScaleInvariance, scale_invariance
from sfumato.audits.self_test import SelfTest, self_test
from sfumato.audits.shadow_models import shadow_attack, train_shadows
from sfumato.audits.speakers import speaker_recognition, word_recognition
from sfumato.audits.stored_records import stored_records
from sfumato.audits.threshold import threshold_bound
from sfumato.audits.value_leak import exact_value_leak

__all__ = [
    "CONFIGURATIONS",
    "Audit",
    "Bound",
    "ClassLeakage",
    "Configuration",
    "CrossFitted",
    "Finding",
    "HeldOut",
    "Heuristic",
    "Information",
    "LearnerAudit",
    "OneRunAudit",
    "Predictions",
    "ScaleInvariance",
    "SelfTest",
    "attack_configurations",
    "attribute_inference",
    "auc",
    "auc_interval",
    "audit",
    "audit_learner",
    "audit_mechanism",
    "audit_model",
    "averaging_attack",
    "best_guesses",
    "class_leakage",
    "class_scorer",
    "class_threshold",
    "classifier_scores",
    "cross_fit",
    "distinguish",
    "exact_value_leak",
    "from_advantage",
    "from_auc",
    "from_rates",
    "gaussian_bound",
    "held_out",
    "informed_inverter",
    "label_only",
    "likelihood_matching",
    "likelihood_membership",
    "likelihood_scores",
    "lira",
    "logistic_membership",
    "loss_threshold",
    "mechanism_of",
    "model_differences",
    "mutual_information",
    "nearest_matching",
    "nearest_neighbour_membership",
    "noise_across_rows",
    "one_noise_two_scales",
    "one_run_audit",
    "one_run_bound",
    "one_run_finding",
    "one_run_gaussian_bound",
    "pair_games",
    "pairing_attack",
    "paper_membership",
    "play",
    "posterior_mean",
    "recover_pairs",
    "ridge_reconstruction",
    "rmia",
    "roc_curve",
    "scale_invariance",
    "self_test",
    "shadow_attack",
    "shared_noise",
    "speaker_recognition",
    "stored_records",
    "threshold_bound",
    "tpr_at_fpr",
    "train_shadows",
    "word_recognition",
    "worst_pair",
]
