"""What a release still says: probes, structure, tables, pictures, distributions, the frontier against ε."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.utility.assessment import Measure as Measure
    from sfumato.utility.assessment import assess as assess
    from sfumato.utility.distribution import frechet_distance as frechet_distance
    from sfumato.utility.distribution import inception_style_score as inception_style_score
    from sfumato.utility.frontiers import frontier as frontier
    from sfumato.utility.frontiers import knee as knee
    from sfumato.utility.image_measures import flicker as flicker
    from sfumato.utility.image_measures import lag as lag
    from sfumato.utility.image_measures import psnr as psnr
    from sfumato.utility.image_measures import ssim as ssim
    from sfumato.utility.probe import fitted as fitted
    from sfumato.utility.probe import linear_probe as linear_probe
    from sfumato.utility.structure_measures import structure as structure
    from sfumato.utility.table_utility import Field as Field
    from sfumato.utility.table_utility import assess_table as assess_table

__all__ = [
    "Field",
    "Measure",
    "assess",
    "assess_table",
    "fitted",
    "flicker",
    "frechet_distance",
    "frontier",
    "inception_style_score",
    "knee",
    "lag",
    "linear_probe",
    "psnr",
    "ssim",
    "structure",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Measure": "assessment",
            "assess": "assessment",
            "frechet_distance": "distribution",
            "inception_style_score": "distribution",
            "frontier": "frontiers",
            "knee": "frontiers",
            "flicker": "image_measures",
            "lag": "image_measures",
            "psnr": "image_measures",
            "ssim": "image_measures",
            "fitted": "probe",
            "linear_probe": "probe",
            "structure": "structure_measures",
            "Field": "table_utility",
            "assess_table": "table_utility",
        },
    )
