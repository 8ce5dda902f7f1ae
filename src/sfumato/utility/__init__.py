"""What a release still says: probes, structure, tables, pictures, distributions, the frontier against ε."""

from sfumato.utility.assessment import assess
from sfumato.utility.cosine_similarities import cosine_similarity
from sfumato.utility.distribution import frechet_distance, inception_style_score
from sfumato.utility.distribution_features import (
    Extractor,
    columns,
    hidden_layer,
    pixels,
    principal_components,
    probabilities,
)
from sfumato.utility.frontier import Choice, frontier, knee, weighted_objective
from sfumato.utility.image_measures import psnr, ssim
from sfumato.utility.measure import Assessment, Measure
from sfumato.utility.probe import Probe, linear_probe
from sfumato.utility.structure import Structure, structure
from sfumato.utility.table_utility import Field, assess_table
from sfumato.utility.video_measures import flicker, lag

__all__ = [
    "Assessment",
    "Choice",
    "Extractor",
    "Field",
    "Measure",
    "Probe",
    "Structure",
    "assess",
    "assess_table",
    "columns",
    "cosine_similarity",
    "flicker",
    "frechet_distance",
    "frontier",
    "hidden_layer",
    "inception_style_score",
    "knee",
    "lag",
    "linear_probe",
    "pixels",
    "principal_components",
    "probabilities",
    "psnr",
    "ssim",
    "structure",
    "weighted_objective",
]
