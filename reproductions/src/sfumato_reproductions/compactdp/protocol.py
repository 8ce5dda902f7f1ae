"""How the paper's experiments are repeated: what it says, what we chose where it is silent, and how much."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.learners import CertifiedCompact

__all__ = [
    "CHOSEN",
    "CONFIDENCE",
    "DELTA",
    "LARGEST",
    "LEFT_OUT",
    "STAND_INS",
    "STATED",
    "TABLE_DATA",
    "Run",
]

#: δ of every guarantee and every bound.
DELTA = 1e-5
#: Of every interval and every bound, each by itself; the six attacks on one model hold together.
CONFIDENCE = 0.95

#: Table or figure -> the data that it is made of here.
TABLE_DATA: dict[int, str] = {
    2: "cifar-10",
    3: "cifar-10",
    4: "pneumonia-mnist",
    5: "ham10000",
    6: "fashion-mnist",
    7: "cifar-10",
}
#: Of larger data sets so many training records are used, so that two cores make the page within an hour.
LARGEST = {"mnist": 10_000, "fashion-mnist": 10_000}
#: What stands in for data that are not here.
STAND_INS: dict[int, str] = {
    4: "PneumoniaMNIST (two classes of chest X-rays) stands in for PathMNIST, which is not here",
    5: "1,984 pictures of HAM10000 at 28 × 28, up to 350 a class, stand in for DermaMNIST, which was made of "
    "the whole of it",
}

STATED = (
    "ε = 1 and δ = 1e-5 unless a row says otherwise; anchors are the upper half of each class by density, "
    "γ = 0.5; adaptive bandwidth; learning rate 0.1 and batches of 4,096 (section 4.1)",
    "80% of the training records are members and the held-out 20% non-members, both from one distribution; "
    "accuracy is that on other records (section 4.1)",
    "six attacks on the answers of a model, cross-validated in 5 folds (table 1); leakage is "
    "(AUC − 0.5)/0.5 (section 4.1)",
    "three conversions of an attack into an *empirical ε*: a line through (AUC, ε) of models with known ε, "
    "log(1 + advantage − 2δ) − log(1 − δ), and log(TPR/FPR) (section 4.1)",
    "the second stage adds noise σ = ησ₁, η being the contraction (algorithm 1)",
)

CHOSEN = (
    "features: the paper's ViT-B/16 needs weights that no package brings; each page says which extractor of "
    "ours it used. Extractors are public and fixed before any record is read",
    "the split: 60% of the records are members; each of the other 40% is a member by its own fair coin, so "
    "that 80% are members but for chance. Attacks are about the records of the coins, in and out in equal "
    "numbers, and the coins make a one-run audit valid, which bounds ε from below with a confidence",
    "the *AUC* of a row is the largest of its six attacks, as the paper has it; that the largest of six is "
    "picked makes it exceed one half even where there is nothing to find. An attack is said to find "
    "something only where its interval does after a correction for six",
    "*records found by reading the model*: those that coins put in and those that they left out are looked "
    "for among the rows of every array of the model, as they are and contracted; equal up to a thousandth of "
    "their spread. The paper has no such attack",
    "*empirical ε, heuristic*: by advantage and by TPR/FPR where the attack with the largest AUC flags the "
    "upper half of all records; by AUC with a line through our own DP-SGD at several ε on the same data. "
    "None of the three is a bound on ε in either direction",
    "the rates of one trained model are not those of independent runs, so that Clopper–Pearson bounds of "
    "them bound rates, not ε; a bound on ε comes from the one-run audit (Steinke et al. 2023) alone, for "
    "neighbours that add or remove a record",
    "*non-private* is softmax regression without noise on the raw features, as regularised as scikit-learn "
    "would have it for features of unit variance; *DP-SGD* is our linear head with a noisy gradient of all "
    "records at each step, of which (ε, δ) is proven",
    "*CompactDP + DP-SGD* is run with the accountant's noise, and once more with the paper's σ = ησ₁. Of "
    "neither anything is proven: the first stage saw every record without noise. Gradients of single "
    "examples are made by torch.func; Poisson sampling, clipping and noise are ours; the ε that the head "
    "would have alone comes from dp-accounting's privacy loss distributions, and agrees with the PRV "
    "accountant of Opacus within the error that it states",
    "two things of the first stage are done differently. Equation 4 is minimised with a logarithm: the mean "
    "of −log of a record's density among its class's anchors, not the sum of kernels as it is printed; the "
    "paper's text speaks of a “logarithmic transformation of probability values”. And every batch makes an "
    "update, where algorithm 1, read literally, makes one an epoch, after all batches",
    "attacks on figure 13 are those of appendix N: logistic regression and a random forest, on "
    "probabilities, on confidence with correctness, and on correctness alone",
    "a claim about two rows is said to hold or not where their means over seeds differ by more than twice "
    "the standard error of the difference (the root of the sum of both variances over the number of seeds); "
    "otherwise the runs do not tell them apart",
    "every row is learned from the members alone; hyper-parameters are the defaults of the learners, and "
    "nothing is chosen by looking at a result of this run; the step sizes of DPAdam, Autoclip and DPA "
    "were set once, for features of length 1 at most. Where the paper is silent, the defaults of "
    "CompactDP itself were chosen on training pictures held back from Fashion-MNIST, CIFAR-10 and digits,"
    " beside others that benchmarks/compact_defaults.py prints (those of its second stage with --head); "
    "twice the width would gain less than a point there, at twice the time. Their first values had come "
    "from an earlier look at digits and 2,000 test pictures of Fashion-MNIST by pixels; over an eight-fold "
    "to hundredfold range around them training pictures leave them where they are. The defaults of the "
    "certified rows were chosen on training pictures held back from MNIST and Fashion-MNIST (--certified)",
    "several pictures of HAM10000 show one lesion; tests share no lesion with the rest, members and "
    "non-members may",
)

LEFT_OUT = (
    f"all but {LARGEST['fashion-mnist']:,} of the 60,000 training records of Fashion-MNIST: the page "
    "is made on two cores, where its features and rows would take six times as long with all of them",
    f"certified contraction of more than {CertifiedCompact.most_features:,} features a record: it releases "
    "their second moments, a square of that side",
    "ViT-H/14, DINOv2-g and ConvNeXt-XL of table 7, whose weights no package brings; extractors that are "
    "here take their place",
    "figures 1 and 2, which are diagrams, and 4 to 10, which show again what figure 3 shows, class by class "
    "and on other data; figures 14 and 15 are columns of figure 13",
)


@dataclass(frozen=True)
class Run:
    """What is run: seeds, how many records of the training part and of the tests at most, and how attacked.

    ``attacked`` is the largest number of members, and of non-members, that the six attacks are about;
    ``backbones`` the largest number of training records for table 7; ``epsilons`` the budgets of table 3 and
    figure 16; ``known`` those at which DP-SGD is run for the line from AUC to ε; ``shown`` the
    records that figures 3, 11 and 12 show.
    """

    seeds: tuple[int, ...]
    records: int
    tests: int
    attacked: int
    folds: int
    backbones: int
    epsilons: tuple[float, ...]
    known: tuple[float, ...]
    shown: int
    quick: bool

    @classmethod
    def of(cls, seeds: int | None, quick: bool) -> Run:
        """About the paper's questions on one core, or, if ``quick``, a run whose numbers say nothing."""
        if quick:
            count = tuple(range(seeds or 1))
            return cls(count, 600, 300, 60, 2, 300, (1.0, 8.0), (1.0, 8.0), 200, True)
        count = tuple(range(seeds or 3))
        epsilons = (0.1, 0.5, 1.0, 3.0, 8.0)
        return cls(count, 20_000, 5_000, 2_000, 5, 2_000, epsilons, (1.0, 8.0), 2_000, False)
