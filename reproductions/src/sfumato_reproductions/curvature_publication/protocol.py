"""How the paper's experiments are repeated: what it says, what we chose where it is silent, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CHOSEN", "DELTA", "LEFT_OUT", "PAPER_DATA", "STATED", "TAILS", "TAIL_SHARE", "Run"]

PAPER_DATA = ("mnist", "fashion-mnist")

#: Data set -> the classes of which few pictures are kept (section 5.1.1).
TAILS: dict[str, tuple[int, ...]] = {
    "mnist": (6, 7, 8, 9),
    "fashion-mnist": (7, 8, 9),
    "digits": (6, 7, 8, 9),
}
#: Of a tail class this share of the size of a head class is kept.
TAIL_SHARE = 0.1

#: δ of every guarantee that is compared.
DELTA = 1e-5

STATED = (
    "class imbalance: classes 6 to 9 of MNIST and the last three of Fashion-MNIST are cut to 10% of the size "
    "of a head class, the tests are left as they are (section 5.1.1)",
    "pixelation in blocks of 3 × 3, Gaussian blur of radius 1.5, k-anonymity with k = 10 and 1,000 clusters, "
    "VAEGAN-DP with noise multiplier 1.1 and clip 1, DPDM with noise multiplier 0.7, clip 2 and noise "
    "multiplicity 3; 20 points along a geodesic (section 5.1.3)",
    "a classifier learns from what is published; accuracy is that on the original tests; membership is "
    "attacked through that classifier by ART's MembershipInferenceBlackBox with losses, trained on part of "
    "the original training and test pictures and tried on others (section 5.2.1)",
    "Fréchet distance and inception score over Inception-v3 (section 5.2.2)",
)

CHOSEN = (
    "*head class size* is 2,500 pictures for every head class, so that pictures of every class are left; "
    "400 left-over pictures of each class are the public part, which no method and no classifier of the "
    "tables reads",
    "the Fréchet distance and the inception-style score are taken over a network like the classifier, "
    "trained on the public part, and are not FID and IS: their values can be ordered, not compared with the "
    "paper's",
    "the attack model of ART is its default network, which is given the label beside the loss; half of the "
    "members and non-members train it and the other half is asked about, members and non-members in equal "
    "numbers",
    "*as the paper*: members from the imbalanced training pictures, non-members from the balanced tests, so "
    "that the label alone already tells; *class-matched*: as many members as non-members of every class, so "
    "that the label tells nothing and only what the classifier remembers is left; all of them are asked "
    "about, each half by an attack that learned from the other",
    "our own attack is a threshold on the loss, one for all or one a class, whichever does better on the "
    "known half; *nearest picture* needs no classifier: a candidate is a member if a published picture is "
    "nearer than a threshold chosen on the known half",
    "the classifier stands for the paper's ResNet-18, which needs about 4 ms for a picture and pass on one "
    "core where it needs 0.13 ms: two convolutions of 5 × 5 with stride 2 and 16 and 32 channels, 256 "
    "features, no augmentation, Adam from 0.002 down to 0 in batches of 128; it learns its pictures by heart "
    "(see the tables), which is what leaks. It was settled before this run by trying three networks, two "
    "learning rates and up to 30 passes on the original pictures alone, looking at accuracy and membership "
    "on the tests; no publishing method was tried with them",
    "VAEGAN-DP as the paper describes it publishes reconstructions and lets a critic learn without noise; "
    "beside it stands one of which something is proven. A step of it takes 400 pictures on average, one of "
    "DPDM 1,000, and there are 400 and 300 of them: fewer than the paper's must have been",
    "*label alone* is the best guess from the label without any model, computed from the class counts",
    "our own publishers with a guarantee are tried at ε = 10 and ε = 1, δ = 1e-5, replace neighbours",
)

LEFT_OUT = (
    "KMNIST, notMNIST, Math Symbols, KANMNIST, AfroMNIST, dSprites and OCTMNIST of table 1",
    "figures 1 and 2, which are diagrams",
)


@dataclass(frozen=True)
class Run:
    """What is run: data, seeds, how many pictures of a head class, public ones of each class, and attacked.

    ``passes`` are those of the classifier over what is published; ``attacked`` is the number of members, and
    of non-members, of the paper's protocol, of which half trains the attack; ``budgets`` is method -> seconds
    of training, of the curvature publisher (``latent`` with two dimensions, for figure 4).
    """

    data: tuple[str, ...]
    seeds: tuple[int, ...]
    head: int
    public: int
    passes: int
    attacked: int
    quick: bool
    budgets: Mapping[str, float] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Those of ART's network."""
        return 3 if self.quick else 100

    @classmethod
    def of(cls, data: tuple[str, ...], seeds: int | None, quick: bool) -> Run:
        """About the paper's questions on two cores, or, if ``quick``, a run whose numbers say nothing."""
        count = tuple(range(seeds or 1))
        if quick:
            budgets = {"curvature": 1.0, "latent": 1.0}
            return cls(data, count, 80, 25, 12, 200, True, budgets)
        budgets = {"curvature": 600.0, "latent": 180.0}
        return cls(data, count, 2_500, 400, 24, 4_000, False, budgets)
