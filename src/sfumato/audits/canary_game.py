"""A lower bound on the ε of a learner from one training run with canaries that fair coins chose.

**The games.** Each canary has a fair coin of its own, drawn independently of everything else. What turning it
does must be what the guarantee's neighbours describe:

- ``add/remove``: the coin says whether the canary is among the records.
- ``zero-out``: the coin says whether the canary is there or a null record, the number of records staying what
  it was. A learner whose ``fit`` takes ``records=``, the number of records of which those given are the ones
  that are not null, plays this game. For any other learner a coin chooses between two canaries, which is
  two zero-outs, and the bound is for one (:mod:`~sfumato.audits.one_run`).
- ``replace``: the coin says which of two records is there.

The bounds rest on the coins alone, whatever the records and the canaries are. A bound near 0 is no proof of
privacy: the attack may be weak. Any object with ``fit(X, y)`` and ``predict_proba(X)`` is a learner here.

**Canaries** are records that are added to the training set, made by public rules, so that what the model
remembers of them can be measured. Nothing else in the data should pull the model the way a canary does.

- ``directions``: random directions of the feature space with random labels.
- ``axes``: each canary has a feature of its own, which is 0 in all other records. Nothing but noise hides
  such a canary, so this is the strongest kind; it audits a learner at that many more features.
- ``mislabelled``: records drawn from the data, each with one of the wrong labels.

Where a coin chooses between two records, the second is the opposite direction with the same label, or the
same record with another wrong label.

**Scores.** One number for each coin, higher if it is 1: from the probability that the model gives to the
label of a canary, or from the weights of a linear model.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.lower_bounds import check_delta, check_scores, failure_chance
from sfumato.audits.one_run import gaussian_mu, guess_bound, impossible
from sfumato.audits.predictions import Predictions, numbers
from sfumato.errors import BadInput, Forewarning
from sfumato.mechanisms import as_array, whole
from sfumato.privacy import DELTA, RECORD, Comparison, Guarantee, Neighbours, format_lower, format_upper

__all__ = ["OneRunAudit", "one_run_audit"]

Floats = NDArray[np.float64]
Report = Callable[[str, float], None]

Labels = NDArray[np.int64]

KINDS = ("directions", "axes", "mislabelled")
# Fewer coins than this bound nothing.
_FEWEST = 10
_ANSWERS = "knows every record and canary, sees the model's answers about the canaries, and not the coins"
_WEIGHTS = "knows every record and canary, sees the weights of the model, and not the coins"


def answers_of(learner: Any, features: Floats, labels: Labels) -> Predictions:
    """Return the probabilities that a trained ``learner`` gives for ``features`` (n, d), with true labels."""
    return Predictions(np.asarray(learner.predict_proba(features)), labels)


def checked_records(X: Any, y: Any) -> tuple[Floats, Labels, int]:
    """Return finite features (n, d), whole labels from 0 (n,), and the number of classes; else raise."""
    features, labels = numbers(X, "features"), as_array(y, "labels")
    if features.ndim != 2:
        raise BadInput(f"features of shape {features.shape} were given: (n, d) are needed.")
    if labels.shape != (len(features),) or labels.dtype.kind not in "ui":
        raise BadInput(
            f"labels of shape {labels.shape} and type {labels.dtype} were given: one whole number for each "
            f"of {len(features)} records is needed."
        )
    if int(labels.min()) < 0 or int(labels.max()) < 1:
        raise BadInput("labels must be whole numbers from 0, of two classes or more.")
    return features, labels.astype(np.int64), int(labels.max()) + 1


def fit_twin(learner: Any, features: Floats, labels: Labels, **given: Any) -> None:
    """Fit a ``learner`` that nobody but the audit sees; forewarnings are for the one that is used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Forewarning)
        learner.fit(features, labels, **given)


def guarantee_of(learner: Any) -> Guarantee:
    """Return the guarantee that the learner states; nothing, under add/remove, if it states none."""
    if hasattr(learner, "guarantee"):
        found: Guarantee = learner.guarantee()
        return found
    return Guarantee.nothing("the learner claims no guarantee", neighbours=Neighbours.ADD_REMOVE)


@dataclass(frozen=True, eq=False)
class CanaryRecords:
    """``features`` (n, d) and ``labels`` of the records that are surely there, and the canaries (m, d).

    Where a coin chooses between two records, ``others`` and ``other_labels`` are the second of each pair.
    """

    features: Floats
    labels: Labels
    canaries: Floats
    canary_labels: Labels
    others: Floats
    other_labels: Labels

    def dataset(self, coins: NDArray[np.int64], *, pairs: bool) -> tuple[Floats, Labels]:
        """Return the training set: of each pair the first if its coin is 1, else the second (or nothing)."""
        if pairs:
            chosen = np.where(coins[:, None] == 1, self.canaries, self.others)
            labels = np.where(coins == 1, self.canary_labels, self.other_labels)
        else:
            chosen, labels = self.canaries[coins == 1], self.canary_labels[coins == 1]
        return np.concatenate([self.features, chosen]), np.concatenate([self.labels, labels])


def canary_records(
    kind: str,
    features: Floats,
    labels: Labels,
    classes: int,
    count: int,
    *,
    length: float,
    rng: np.random.Generator,
) -> CanaryRecords:
    """Return ``count`` canaries of a ``kind`` beside ``features`` (n, d), of ``length`` if they have one."""
    if kind == "axes":
        features = np.pad(features, ((0, 0), (0, count)))
        canaries = np.zeros((count, features.shape[1]))
        canaries[np.arange(count), np.arange(-count, 0)] = length
    elif kind == "directions":
        drawn = rng.standard_normal((count, features.shape[1]))
        canaries = length * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    elif kind == "mislabelled":
        if classes < 3:
            raise BadInput("mislabelled canaries need three classes: a true label and two wrong ones.")
        if count > len(features):
            raise BadInput(f"{count} mislabelled canaries were asked for among {len(features)} records.")
        chosen = rng.permutation(len(features))[:count]
        wrong = (labels[chosen] + rng.integers(1, classes, count)) % classes
        # Another wrong label: neither the true one nor the first wrong one.
        steps = (wrong - labels[chosen]) % classes
        others = (
            labels[chosen] + 1 + (steps - 1 + rng.integers(1, classes - 1, count)) % (classes - 1)
        ) % classes
        stay = np.ones(len(features), dtype=bool)
        stay[chosen] = False
        rows = features[chosen]
        return CanaryRecords(features[stay], labels[stay], rows, wrong, rows.copy(), others)
    else:
        raise BadInput(f"{kind!r} is no kind of canary: choose among {', '.join(KINDS)}.")
    drawn_labels = rng.integers(0, classes, count)
    return CanaryRecords(features, labels, canaries, drawn_labels, -canaries, drawn_labels)


def answer_certainty(learner: Any, records: CanaryRecords, *, pairs: bool) -> Floats:
    """From the scaled logit of each canary's label: minus that of its other record, or minus the median."""
    first = answers_of(learner, records.canaries, records.canary_labels).scaled_logit
    if pairs:
        return first - answers_of(learner, records.others, records.other_labels).scaled_logit
    return np.asarray(first - np.median(first))


def weight_certainty(learner: Any, records: CanaryRecords, *, pairs: bool) -> Floats | None:
    """From the weights of a linear learner, along the gradient of each canary at equal probabilities.

    The gradient of a record x with label c is x (1/C − e_c)ᵀ, and the weights move against it. None for
    learners whose ``tensors()`` have no ``weights`` of shape (1 + d, classes) or (d, classes). Those of a
    constant, which stand first, are left alone: all canaries of a label share them.
    """
    tensors = learner.tensors() if hasattr(learner, "tensors") else {}
    found = tensors.get("weights") if isinstance(tensors, Mapping) else None
    if found is None or np.ndim(found) != 2:
        return None
    weights, columns = np.asarray(found, dtype=np.float64), records.canaries.shape[1]
    if len(weights) not in (columns, columns + 1) or weights.shape[1] <= int(records.labels.max()):
        return None
    pulled = weights[len(weights) - columns :]
    pulled = pulled - pulled.mean(axis=1, keepdims=True)
    first = _along(pulled, records.canaries, records.canary_labels)
    if pairs:
        return check_scores(first - _along(pulled, records.others, records.other_labels), "weights")
    return check_scores(first - np.median(first), "weights")


def _along(weights: Floats, features: Floats, labels: NDArray[np.int64]) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", features, weights.T[labels]))


@dataclass(frozen=True)
class OneRunAudit:
    """What one training run gave away about ``canaries`` coins, beside what is ``proven``.

    Each of ``findings`` is a lower bound on ε at its δ, for a record under the neighbours of the game; all of
    them, and so the largest, hold together with ``confidence``. ``surely_more`` says whether coins were
    guessed so well as happens with at most ``chance`` if the proof holds. ``zero_outs`` is 2 where a coin
    stood for two zero-outs.
    """

    findings: tuple[Finding, ...]
    proven: Guarantee
    canaries: int
    zero_outs: int
    surely_more: bool
    chance: float
    confidence: float

    @property
    def epsilon_lower(self) -> float:
        """Return the largest of the bounds."""
        return max(item.epsilon_lower or 0.0 for item in self.findings)

    @property
    def consistent(self) -> bool:
        """Return whether no bound lies above what is proven at its δ."""
        return not any(Comparison(self.proven, item.evidence()).refuted for item in self.findings)

    def sentence(self) -> str:
        """Return a sentence that compares what was measured with what is proven."""
        best = max(self.findings, key=lambda item: item.epsilon_lower or 0.0)
        shown = (
            f"one run with {self.canaries} canaries shows ε ≥ {format_lower(best.epsilon_lower or 0.0, 3)} "
            f"at δ = {best.delta:g} ({best.attack}, confidence {self.confidence:g})"
        )
        if self.proven.proves_nothing:
            return f"{shown}; nothing is proven."
        proven = Comparison(self.proven, best.evidence()).epsilon
        against = f"{shown}, against a proven ε of {format_upper(proven, 3)}"
        if self.surely_more:
            return f"{against}: the proof, the code or the audit is wrong, beyond a doubt of {self.chance:g}."
        return (
            f"{against}." if self.consistent else f"{against}: more than is proven, though not beyond doubt."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "canaries": self.canaries,
            "zero_outs": self.zero_outs,
            "proven": self.proven.to_dict(),
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "consistent": self.consistent,
            "surely_more": self.surely_more,
            "chance": self.chance,
            "findings": [item.to_dict() for item in self.findings],
            "sentence": self.sentence(),
        }


def one_run_audit(
    make: Callable[[], Any],
    X: Any,
    y: Any,
    *,
    canaries: int = 500,
    kind: str = "axes",
    neighbours: Neighbours | str | None = None,
    delta: float = DELTA,
    confidence: float = 0.99,
    chance: float = 1e-6,
    seed: int = 0,
    report: Report | None = None,
) -> OneRunAudit:
    """Train ``make()`` once on ``X`` (n, d), ``y`` (n,) and ``canaries`` of a ``kind``, and guess the coins.

    ``make`` returns an untrained learner: ``fit(X, y)``, ``predict_proba(X)`` and, where it claims something,
    ``guarantee()``. ``neighbours`` are those of the guarantee unless given; where the guarantee has others,
    or another unit than a record, nothing is proven of the game. What is proven is asked again after
    training, for learners that must count the records to know. Canaries are as long as the ``reach`` of the
    learner if it has one, else as the longest record. The findings: a bound from the model's answers and,
    for a linear model, one from its weights; where the guarantee is that of Gaussian noise, of each also a
    bound on the Gaussian curve, which is tighter and holds only for such curves. All of these bounds hold
    together with ``confidence``, each by its share of what that leaves. ``seed`` draws canaries and coins; it
    must be unknown to the learner.
    """
    features, labels, classes = checked_records(X, y)
    whole("canaries", canaries, smallest=_FEWEST)
    delta, tell = check_delta(delta), report or (lambda stage, share: None)
    learner = make()
    classes = max(classes, getattr(learner, "classes", None) or 0)
    game = guarantee_of(learner).neighbours if neighbours is None else Neighbours(neighbours)
    null = game is Neighbours.ZERO_OUT and "records" in inspect.signature(learner.fit).parameters
    pairs = game is not Neighbours.ADD_REMOVE and not null
    zero_outs = 2 if game is Neighbours.ZERO_OUT and pairs else 1
    rng = np.random.default_rng(seed)
    records = canary_records(
        kind, features, labels, classes, canaries, length=_length(learner, features), rng=rng
    )
    coins = rng.integers(0, 2, canaries)
    tell("training with canaries", 0.0)
    given = records.dataset(coins, pairs=pairs)
    if null:
        fit_twin(learner, *given, records=len(records.features) + canaries)
    else:
        fit_twin(learner, *given)
    proven = guarantee_of(learner)
    if (proven.unit, proven.neighbours) != (RECORD, game):
        proven = Guarantee.nothing(f"nothing is proven of a record under {game}", RECORD, game)
    tell("guessing the coins", 0.8)
    seen = [("answers", _ANSWERS, answer_certainty(learner, records, pairs=pairs))]
    inner = weight_certainty(learner, records, pairs=pairs)
    if inner is not None:
        seen.append(("weights", _WEIGHTS, inner))
    curves = (False, True) if gaussian_mu(proven) is not None and delta > 0.0 else (False,)
    # The largest of the bounds is what counts, so each must leave room for all of them to hold.
    each = 1.0 - failure_chance(confidence) / (len(seen) * len(curves))
    note = f"canaries of the kind {kind}, chosen by fair coins"
    if zero_outs == 2:
        note += "; a coin chose between two of them, which is two zero-outs, and the bound is for one"
    found, sure = [], False
    for name, threat, certainty in seen:
        for gaussian in curves:
            bound = guess_bound(
                certainty, coins, delta=delta, confidence=each, gaussian=gaussian, zero_outs=zero_outs
            )
            curve = ", Gaussian curve" if gaussian else ""
            attack = f"one-run audit by {name}{curve}"
            found.append(Finding.of_guesses(attack, threat, bound, RECORD, game, note))
        sure = sure or impossible(certainty, coins, proven, chance=chance / len(seen), zero_outs=zero_outs)
    tell("coins guessed", 1.0)
    return OneRunAudit(tuple(found), proven, canaries, zero_outs, sure, chance, confidence)


def _length(learner: Any, features: Floats) -> float:
    reach = getattr(learner, "reach", None)
    length = float(np.linalg.norm(features, axis=1).max() if reach is None else reach)
    if not 0.0 < length < np.inf:
        raise BadInput(f"canaries were to have the length {length!r}: it must be above 0 and finite.")
    return length
