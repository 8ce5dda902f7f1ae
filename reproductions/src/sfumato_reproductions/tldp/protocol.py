"""How the paper's experiments are repeated: what it says, and every choice that it leaves open."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHOSEN", "PAPER_DATA", "SHAPES", "STATED", "Run"]

PAPER_DATA = ("mnist", "cifar-10")

#: Data set -> shape of one picture.
SHAPES: dict[str, tuple[int, ...]] = {
    "mnist": (28, 28),
    "fashion-mnist": (28, 28),
    "cifar-10": (32, 32, 3),
    "digits": (8, 8),
}

STATED = (
    "Δ = 256 for pictures and features; δ = 1e-5 for mechanisms that need one",
    "type I: a network is trained on protected pictures; type II: on protected features in (−1, 1), of which "
    "only the last layer is trained; both are tested on what is not protected (only pictures and features "
    "are protected, labels are not)",
    "weighted F1; weights of TLDP-L-w and TLDP-G-w are the grey values, on MNIST in type I only",
    "the whole-tensor baselines Laplace, Gaussian, MVG and IDN, the last two with the noise of their authors",
)

CHOSEN = (
    "a convolutional network of two layers and 64 features, trained by Adam from 0.004 down to 0 in batches "
    "of 128 (the last layer alone: from 0.01), stands for MobileNet; the pictures to learn from, to test "
    "on and the public ones are disjoint, all drawn from the training part; the public ones are the "
    "same for all seeds",
    "features of type II: the 64 values before the last layer of that network, trained without noise on the "
    "first half of the public pictures and never on a private one; (−1, 1) is moved to (0, Δ)",
    "which sound mechanism is set against a point of TLDP is chosen on public pictures alone, all of them in "
    "type I and in type II the half that taught no features: two thirds are protected and learned from, one "
    "third is tested on, twice, and the mechanism with the larger mean F1 is taken; offered are, for a "
    "component, Hybrid and GridTensorLDP of two levels, for a tensor also Gaussian noise at TLDP's own "
    "(ε, δ) and, in type II, PrivUnitG",
    "a first run chose on half of the public pictures in type I too, which favours rounding to two levels, "
    "since less is learned from; in it the sound mechanism was at or above TLDP everywhere but at two points "
    "of CIFAR-10 in type I, for a tensor and for both units (TLDP-G, claimed ε = 1 and 2: −0.006 ± 0.007 and "
    "−0.009 ± 0.009)",
    "inputs of the network are centred at Δ/2 and divided by √(Δ²/4 + s²), s being the mechanism's expected "
    "error, which is public; reports of GridTensorLDP are made unbiased first, which is post-processing",
    "p of algorithm 1; noise of TLDP on a grid far finer than the levels of a picture",
    "one tensor of a colour picture has 32·32·3 = 3,072 components (the paper counts 1,024)",
    "whole-tensor Gaussian noise is the analytic Gaussian",
    "the whole-tensor baselines run on the first seed only, since they learn nothing",
    "the network, its learning rate and its passes were settled by trying some on these data, with TLDP and "
    "sound mechanisms side by side, before the run on this page; seeds and mechanisms were not",
    "SVHN is not run; figure 3, federated training, has a protocol of its own",
)


@dataclass(frozen=True)
class Run:
    """What is run: data, seeds, claimed ε, how many pictures to learn from, to test on and public ones.

    ``passes`` are those of type I and of type II; ``tensors`` is how many tensors of each size of table 5 are
    drawn, by the name of the size.
    """

    data: tuple[str, ...]
    seeds: tuple[int, ...]
    epsilons: tuple[float, ...]
    learned: int
    tested: int
    public: int
    passes: tuple[int, int]
    tensors: dict[str, int]
    quick: bool

    @classmethod
    def of(cls, data: tuple[str, ...], seeds: int | None, quick: bool) -> Run:
        """About the paper's questions on one processor, or, if ``quick``, a run whose numbers say nothing."""
        if quick:
            draws = {"MNIST": 24, "small": 200}
            return cls(data, tuple(range(seeds or 2)), (0.5, 2.0), 500, 300, 600, (2, 2), draws, True)
        draws = {"MNIST": 256, "small": 4000}
        epsilons = (0.1, 0.3, 1.0, 2.0, 5.0)
        return cls(data, tuple(range(seeds or 3)), epsilons, 6_000, 4_000, 6_000, (4, 6), draws, False)

    def parts(self, available: int) -> tuple[int, int, int]:
        """How many of ``available`` pictures are tested on, learned from and public."""
        asked = self.tested + self.learned + self.public
        share = min(1.0, available / asked)
        return int(self.tested * share), int(self.learned * share), int(self.public * share)
