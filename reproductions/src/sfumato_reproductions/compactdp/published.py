"""What the paper prints in tables 2 to 7, and in its text where that differs from them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "APPENDIX_P",
    "AUTOCLIP",
    "AUTOMOBILE",
    "BIRD",
    "COMBINED",
    "COMPACT",
    "DPA",
    "DPADAM",
    "DP_SGD",
    "ETA",
    "FIGURE_13",
    "FIGURE_15",
    "FIGURE_16",
    "NON_PRIVATE",
    "TABLES",
    "TABLE_3_TPR",
    "TABLE_7",
    "TEXT",
    "VULNERABLE",
    "Printed",
    "combined",
]

NON_PRIVATE, DP_SGD, COMPACT = "Non-Private", "DP-SGD (ε = 1)", "CompactDP"
DPADAM, AUTOCLIP, DPA = "DPAdam", "Autoclip", "DPA"


def combined(epsilon: float) -> str:
    """The paper's name for its features with DP-SGD behind them."""
    return f"CompactDP+DP-SGD (ε = {epsilon:g})"


COMBINED = combined(1.0)


@dataclass(frozen=True)
class Printed:
    """One row; accuracy in percent, and None where a table has no such column."""

    accuracy: float
    auc: float
    tpr: float | None = None
    leakage: float | None = None
    epsilon: float | None = None
    confidence: float | None = None
    calibration: float | None = None
    entropy: float | None = None

    @property
    def leakage_by_formula(self) -> float:
        """The paper's own (AUC − 0.5)/0.5 of its own AUC."""
        return (self.auc - 0.5) / 0.5


def _audited(accuracy: float, leakage: float, epsilon: float, auc: float) -> Printed:
    return Printed(accuracy, auc, leakage=leakage, epsilon=epsilon)


def _differences(accuracy: float, auc: float, *differences: float) -> Printed:
    confidence, calibration, entropy = differences
    return Printed(accuracy, auc, confidence=confidence, calibration=calibration, entropy=entropy)


#: Table -> the paper's row -> what it prints; tables 2 and 3 are of CIFAR-10, 4 of PathMNIST, 5 of DermaMNIST
#: and 6 of Fashion-MNIST.
TABLES: dict[int, dict[str, Printed]] = {
    2: {
        NON_PRIVATE: Printed(94.84, 0.5487, 0.0038, 0.080, 1.250),
        DP_SGD: Printed(89.78, 0.5072, 0.0022, 0.006, 0.139),
        COMPACT: Printed(95.32, 0.5137, 0.0009, 0.018, 0.206),
        COMBINED: Printed(95.30, 0.5129, 0.0007, 0.013, 0.178),
    },
    3: {
        COMPACT: _audited(95.07, 0.011, 0.2080, 0.5092),
        combined(0.1): _audited(95.08, 0.004, 0.1570, 0.5053),
        combined(0.5): _audited(95.09, 0.010, 0.1755, 0.5062),
        combined(1.0): _audited(95.09, 0.011, 0.1794, 0.5064),
        combined(3.0): _audited(95.09, 0.011, 0.1926, 0.5070),
        combined(8.0): _audited(95.09, 0.011, 0.1926, 0.5070),
    },
    4: {
        NON_PRIVATE: _audited(93.35, 0.038, 1.3312, 0.5476),
        DP_SGD: _audited(81.07, 0.008, 0.0905, 0.5043),
        DPADAM: _audited(83.12, 0.007, 0.0858, 0.5040),
        AUTOCLIP: _audited(84.27, 0.007, 0.0890, 0.5020),
        DPA: _audited(84.31, 0.003, 0.0725, 0.5008),
        COMPACT: _audited(94.69, 0.004, 0.1143, 0.5043),
        COMBINED: _audited(94.29, 0.009, 0.1325, 0.5075),
    },
    5: {
        NON_PRIVATE: _differences(79.30, 0.5142, 0.0414, -0.1569, -0.0948),
        DP_SGD: _differences(70.12, 0.4994, 0.0044, 0.0062, -0.0141),
        COMPACT: _differences(78.15, 0.5146, 0.0005, -0.1863, -0.0013),
        COMBINED: _differences(79.75, 0.4974, 0.0351, -0.1316, -0.0953),
    },
    6: {
        NON_PRIVATE: _differences(92.54, 0.4948, 0.0090, 0.0213, 0.0232),
        DP_SGD: _differences(79.84, 0.4947, 0.0026, 0.0027, 0.0047),
        COMPACT: _differences(92.48, 0.4947, 0.0001, 0.0332, 0.0003),
        COMBINED: _differences(92.52, 0.4937, 0.0087, 0.0226, 0.0238),
    },
}

#: Backbone -> what it was trained on, parameters in millions, accuracy without privacy and of the paper's
#: method in percent, on CIFAR-10.
TABLE_7: dict[str, tuple[str, int, float, float]] = {
    "ViT-H/14": ("ImageNet-21k", 632, 96.9, 96.8),
    "DINOv2-g": ("LVD-142M", 1110, 97.7, 97.2),
    "ConvNeXt-XL": ("ImageNet-21k", 350, 96.9, 96.2),
}

#: What the text says of CompactDP where the tables have something else: (table, measure) -> in the text.
TEXT: dict[tuple[int, str], float] = {
    (2, "accuracy"): 95.82,
    (2, "tpr"): 0.0003,
    (2, "leakage"): 0.007,
    (2, "epsilon"): 0.0114,
    (4, "epsilon"): 0.0085,
}

#: The contraction η that section 4.3 reports, and the empirical ε of figures 13 and 15 (appendix N).
ETA, FIGURE_13, FIGURE_15 = 0.05, 0.51, 0.0003
#: TPR at 0.1% FPR over all rows of table 3, lowest and highest (section 4.4).
TABLE_3_TPR = (0.0013, 0.0025)
#: Lowest and highest accuracy in percent over ε from 0.5 to 8, mean AUC and its deviation (appendix P).
FIGURE_16 = (95.78, 95.82, 0.4995, 0.0013)
#: Of the same: the largest |advantage|, and what confidence and accuracy differ by less than (appendix P).
APPENDIX_P = (0.0027, 0.0003, 0.0035)
#: Diameters d_c of two classes of CIFAR-10, and how many times as large ν_c of the first is (section 4.3).
BIRD, AUTOMOBILE, VULNERABLE = 67.0, 18.0, 3.7
