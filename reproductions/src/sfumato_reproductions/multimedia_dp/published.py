"""What the paper prints: the rows of its tables 2 and 4, and its headline figures.

Table 1 stands in ``sfumato.media.CATEGORIES``, table 5 in ``selection_measures``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ADAPTIVE_GAIN",
    "AGREEMENT",
    "CALIBRATION",
    "DELTA",
    "NEEDED_SSIM",
    "THRESHOLDS",
    "Calibration",
    "Threshold",
]

#: Section 4.1.3.
DELTA = 1e-6

#: Abstract: by how much allocation by sensitivity is said to reduce utility loss against a uniform one.
ADAPTIVE_GAIN = 0.387

#: Section 3.1.1: agreement of sensitivity scores with human judgement.
AGREEMENT = 0.94


@dataclass(frozen=True)
class Calibration:
    """A row of table 2; ``factor`` is what Δ/ε is multiplied by."""

    feature: str
    distribution: str
    factor: float
    sensitivity: str
    loss: str


CALIBRATION = {
    "pixels": Calibration("RGB pixels", "Laplace", 0.3, "255", "5.2% PSNR"),
    "cosines": Calibration("DCT coefficients", "Gaussian", 0.5, "√N", "3.8% SSIM"),
    "sound": Calibration("MFCC features", "Laplace", 0.4, "2.0", "6.1% WER"),
    "flow": Calibration("optical flow", "exponential", 0.6, "max_flow", "7.3% EPE"),
    "words": Calibration("word embeddings", "Gaussian", 0.2, "1.0", "4.5% F1"),
}

#: What table 2 says is left of structural similarity under noise on DCT coefficients.
NEEDED_SSIM = 1.0 - 0.038


@dataclass(frozen=True)
class Threshold:
    """A row of table 4."""

    initial: float
    optimised: float
    iterations: int
    threshold: float


THRESHOLDS = {
    "face detection": Threshold(0.342, 0.187, 127, 0.621),
    "object localisation": Threshold(0.298, 0.156, 93, 0.534),
    "speech endpoint": Threshold(0.376, 0.201, 156, 0.687),
    "scene segmentation": Threshold(0.265, 0.142, 78, 0.492),
    "action recognition": Threshold(0.391, 0.218, 184, 0.713),
}
