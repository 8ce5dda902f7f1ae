# Written by `make index` from the `__all__` of every module.
from .assessment import Measure as Measure
from .assessment import assess as assess
from .distribution import frechet_distance as frechet_distance
from .distribution import inception_style_score as inception_style_score
from .frontiers import frontier as frontier
from .frontiers import knee as knee
from .image_measures import flicker as flicker
from .image_measures import lag as lag
from .image_measures import psnr as psnr
from .image_measures import ssim as ssim
from .probe import fitted as fitted
from .probe import linear_probe as linear_probe
from .structure_measures import structure as structure
from .table_utility import Field as Field
from .table_utility import assess_table as assess_table
