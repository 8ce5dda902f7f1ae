"""How the paper's experiments are repeated: what it says, what we chose where it is silent, and how much."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHOSEN", "LEFT_OUT", "SIDE", "STATED", "Run"]

#: Pictures are cut to SIDE × SIDE pixels, as in section 4.1.1.
SIDE = 224

STATED = (
    "ε = 1 first of all, δ = 1e-6 where a δ is needed; pictures of 224 × 224 pixels (section 4.1)",
    "table 2's noise: 0.3·255/ε on pixels (Laplace), 0.5·√N/ε on DCT coefficients (Gaussian), 0.4·2/ε on "
    "mel features (Laplace), 0.6·max_flow/ε on flow, 0.2/ε on embeddings (Gaussian); in the spectrum Laplace "
    "noise grows as (1 + f/f_max)^0.6; sound fades as exp(−|t − t₀|/50 ms) (section 3.2.1)",
    "thresholds by J(t) + v·t, v ~ Lap(ΔL/ε) (section 3.3.1); pixels are chosen above μ + kσ (section 3.3.2)",
    "budgets by category within table 1's ranges, a reserve of 20% (section 3.1)",
)

CHOSEN = (
    "the paper names no unit. Here it is always named: one value, any 16 × 16 pixels (region(16)), any 16 "
    "pixels (pixels(16)), one frame, any 20 ms of sound (window(20)), or the whole item; neighbours differ "
    "by replacement of the unit with anything",
    "photographs are COCO val2017 files with their published boxes; constants and weights of our "
    "mechanisms come from half of them, results from the other half, split by a hash of the file's name. "
    "Where a table needs 224 × 224 pixels, the shorter side is shrunk to 256 and the middle is cut out; "
    "the comparison with DP-Pix takes the middle of the file as it is",
    "N is the number of pixels; λ of the spectral Laplace noise is table 2's 0.5·√N/ε; f is the geometric "
    "mean over both axes; MFCC noise is put on 128 mel levels of −80 to 0 dB, scaled to [−1, 1]; exponential "
    "noise on flow is read as two-sided, since one-sided noise proves nothing",
    "loss of pictures is told as PSNR and as 1 − SSIM: a photograph has no PSNR before noise of which a "
    "percentage could be lost",
    "the score of a picture is the largest S of its tiles of 64 pixels, from detectors that look at the "
    "whole picture: faces and plates by boosted cascades, text by strokes (reading it takes seconds for "
    "each)",
    "which photographs stand for a category: four or more declared people are a crowd, none is a landscape; "
    "portraits, printed pages and textures come from other sets, named in the table",
    "J is FPR + FNR: as many positive as negative records are taken, so that their share is public",
    "utility retention of table 5 is structural similarity; sensitive are the boxes of people; the paper's "
    "coverages are taken as they are",
    "lag is what a filter adds to that of the unfiltered release, where a clip moves most; flicker is "
    "measured where it stands most still",
    "speech: takes 0 to 3 are tested on, later ones learned from; public statistics of speech come from "
    "takes 25 to 49 of the same data set and speakers",
    "noise of this page is seeded, so that it can be made again: it measures, and is not for release; only "
    "the coins that the random row of table 5 is counted on, and all times, differ from run to run",
)

LEFT_OUT = (
    "table 3 (milliseconds and megabytes of eight accelerators), table 6 and figure 3 (attacks on "
    "detectors trained on COCO, AudioSet and UCF101, which are not at hand), figure 1 (a drawing of a "
    "concave function)",
    "word error rate, end-point error of flow, F1 of texts: of table 2 the theorem is given, not the loss",
    "speech endpoint, scene segmentation and action recognition of table 4: no labelled scores are at hand",
)


@dataclass(frozen=True)
class Run:
    """How much of everything is run.

    ``photographs`` bounds how many are measured on, ``rounds`` how often each is released, ``draws`` how
    often a threshold is chosen, ``frames`` and ``clips`` how long and how many clips are, ``takes`` how many
    of a speaker's recordings of a digit are used.
    """

    photographs: int
    rounds: int
    draws: int
    clips: int
    frames: int
    takes: int
    quick: bool

    @classmethod
    def of(cls, quick: bool) -> Run:
        """All that is at hand on one processor, or, if ``quick``, a run whose numbers say nothing."""
        if quick:
            return cls(3, 1, 10, 1, 24, 2, True)
        return cls(1000, 3, 200, 10, 60, 12, False)
