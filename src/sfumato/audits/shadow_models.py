"""Attacks by shadow models, which are models like the target: an attack network, LiRA and RMIA.

**Attack network**: a perceptron with hidden layers of 256, 128 and 64 units and dropout 0.3, trained on
tuples (output, label, membership) of the shadow models (Shokri et al. 2017).

**LiRA**, the likelihood ratio attack (Carlini et al. 2022), online and offline. Over models trained with a
record, the scaled logit log p/(1 − p) of its true label is close to normal, and so it is over models trained
without it. Shadow models give the two means and variances of each record, and the target's own logit is
judged by them.

**RMIA**, the robust membership inference attack (Zarifzadeh, Liu & Shokri 2024), online and offline. A record
x is compared with many records z of the population that the target has not seen. With p(·|θ) the target's
probability of the true label and p(·) its average over reference models,

    LR(x, z) = (p(x|θ) / p(x)) / (p(z|θ) / p(z)),

and the score of x is the share of z with LR(x, z) ≥ γ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audits.canary_game import fit_twin
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable, numbers
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["lira", "rmia", "shadow_attack"]

Floats = npt.NDArray[np.float64]
Scorer = Callable[[Predictions], Floats]
Booleans = npt.NDArray[np.bool_]
ENOUGH = 32  # shadow models on a side from which a record's own variance is trusted
GAMMA, A = 2.0, 0.3  # of RMIA, as its authors choose them
HIDDEN = (256, 128, 64)
DROPOUT = 0.3
EPOCHS = 20
STEPS = 200  # at most, in an epoch; batches hold 256 tuples or more


@dataclass(frozen=True, eq=False)
class Shadows:
    """Predictions of each shadow model on all n records, and which it was trained on, (models, n)."""

    predictions: tuple[Predictions, ...]
    inside: Booleans

    def pairs(self) -> list[tuple[Predictions, Predictions]]:
        """Return for each model its predictions on records it was trained on, and on those it was not."""
        both = zip(self.predictions, self.inside, strict=True)
        return [(item.rows(inside), item.rows(~inside)) for item, inside in both]


def train_shadows(
    factory: Callable[[int], Any],
    records: Floats,
    labels: npt.NDArray[np.int64],
    count: int,
    seed: int = 0,
    *,
    report: Callable[[str, float], None] | None = None,
) -> Shadows:
    """Train ``count`` models, each on half of ``records`` (n, d) with ``labels`` from 0 to C − 1.

    ``factory(seed)`` makes an untrained model with ``fit(X, y)`` and ``predict_proba(X)``. Models come in
    pairs whose halves complement each other, so that every record is inside ⌊count/2⌋ or ⌈count/2⌉ models.
    For the attack network and the offline attacks the records must not include the target's; for the online
    attacks they are the very records that are asked about.
    """
    classes = int(labels.max()) + 1
    rng = np.random.default_rng(seed)
    inside = np.zeros((count, len(labels)), dtype=np.bool_)
    answers = []
    for index in range(count):
        if index % 2:
            inside[index] = ~inside[index - 1]
        else:
            inside[index, rng.permutation(len(labels))[: (len(labels) + 1) // 2]] = True
        chosen = inside[index]
        if np.unique(labels[chosen]).size < 2:
            raise BadInput(f"shadow model {index} would be trained on a single class: give more records.")
        model = factory(int(rng.integers(2**31 - 1)))
        fit_twin(model, records[chosen], labels[chosen])
        answers.append(_predictions(model, records, labels, classes))
        if report is not None:
            report("shadow models", (index + 1) / count)
    return Shadows(tuple(answers), inside)


def _predictions(model: Any, X: npt.NDArray[Any], y: npt.NDArray[Any], classes: int) -> Predictions:
    probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
    known = getattr(model, "classes_", None)
    if known is not None and probabilities.ndim == 2 and probabilities.shape[1] != classes:
        # A model that never saw some class has no column for it.
        full = np.zeros((len(probabilities), classes))
        full[:, np.asarray(known, dtype=np.int64)] = probabilities
        probabilities = full
    return Predictions(probabilities, y)


def train_attack_network(
    shadows: Sequence[tuple[Predictions, Predictions]],
    *,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> Scorer:
    """Train the attack network on shadow models' tuples; the scorer it returns is higher for members.

    ``shadows`` holds for each model its predictions on records it was trained on and on others, as
    `Shadows.pairs` gives them; the records may differ between models. The output enters as the logarithms
    of the probabilities, beside the scaled logit of the label and the label itself, one column a class. The
    same seed gives the same network, and torch's own generator is left as it was.
    """
    try:
        import torch
    except ImportError:
        raise BadInput("the shadow-model attack needs torch: pip install 'sfumato[learn]'.") from None
    flat = [item for pair in shadows for item in pair]
    if not flat:
        raise BadInput("no shadow models were given: train at least one.")
    for item in flat:
        check_comparable(flat[0], item)
    features = np.concatenate([_features(item) for item in flat])
    centre, spread = features.mean(axis=0), features.std(axis=0)
    if not spread.any():
        raise BadInput("the shadow models answer the same for every record: there is nothing to learn.")
    spread[spread == 0.0] = 1.0
    inputs = torch.tensor((features - centre) / spread, dtype=torch.float32)
    truth = torch.tensor(np.repeat([1.0, 0.0] * len(shadows), [len(item) for item in flat])).float()

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.default_generator.manual_seed(seed)
        network = _network(torch, inputs.shape[1])
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4)
        criterion = torch.nn.BCEWithLogitsLoss()
        for epoch in range(EPOCHS):
            for batch in torch.split(torch.randperm(len(inputs)), max(256, -(-len(inputs) // STEPS))):
                optimiser.zero_grad()
                criterion(network(inputs[batch]).squeeze(1), truth[batch]).backward()
                optimiser.step()
            if report is not None:
                report("attack network", (epoch + 1) / EPOCHS)
    network.eval()

    def score(predictions: Predictions) -> Floats:
        check_comparable(flat[0], predictions)
        rows = torch.tensor((_features(predictions) - centre) / spread, dtype=torch.float32)
        with torch.no_grad():
            return np.asarray(network(rows).squeeze(1).numpy(), dtype=np.float64)

    return score


def _network(torch: Any, width: int) -> Any:
    layers: list[Any] = []
    for size in HIDDEN:
        layers += [torch.nn.Linear(width, size), torch.nn.ReLU(), torch.nn.Dropout(DROPOUT)]
        width = size
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))


def _features(predictions: Predictions) -> Floats:
    logs = np.log(np.maximum(predictions.probabilities, predictions.floor))
    return np.column_stack([logs, predictions.scaled_logit, np.eye(predictions.classes)[predictions.labels]])


def shadow_attack(
    members: Predictions,
    nonmembers: Predictions,
    shadows: Sequence[tuple[Predictions, Predictions]],
    *,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> Finding:
    """Train the attack network on ``shadows``, as `train_attack_network` does, and attack the target with it.

    The shadow models' records must come from the target's distribution and must not be the target's.
    """
    check_comparable(members, nonmembers)
    score = train_attack_network(shadows, seed=seed, report=report)
    return finding_from_scores(
        "shadow models",
        f"sees the model's answers and trained {len(shadows)} models like it on other records of "
        "the same distribution",
        score(members),
        score(nonmembers),
        confidence=confidence,
    )


def lira_scores(
    target: npt.ArrayLike, shadows: npt.ArrayLike, inside: npt.ArrayLike, *, online: bool = True
) -> Floats:
    """Return one score for each record, higher for members.

    ``target`` (n,) are the target's scaled logits of n records, ``shadows`` (models, n) those of the shadow
    models on the same records, and ``inside`` (models, n) says which model was trained on which record.

    Online, the score is the log-likelihood ratio of the two normals, and each record needs a model inside
    and one outside. Offline, only models without the record are used, and the score is the one-sided test
    statistic z = (logit − mean)/deviation, which orders records as the paper's 1 − Pr[N > logit] does.

    The variance is a record's own where every record has at least 32 models on the side, and otherwise one
    for all records, pooled around their own means.
    """
    logits, answers = _aligned(target, shadows, "logits")
    trained = _mask(inside, answers.shape)
    mean, variance = _normal(answers, ~trained, "outside")
    from_outside = (logits - mean) / np.sqrt(variance)
    if not online:
        return np.asarray(from_outside)
    mean, inner = _normal(answers, trained, "inside")
    from_inside = (logits - mean) / np.sqrt(inner)
    return np.asarray(0.5 * (from_outside**2 - from_inside**2 + np.log(variance) - np.log(inner)))


def lira(
    target: npt.ArrayLike,
    members: npt.ArrayLike,
    shadows: npt.ArrayLike,
    inside: npt.ArrayLike,
    *,
    online: bool = True,
    confidence: float = 0.99,
) -> Finding:
    """Attack the target with `lira_scores`; ``members`` (n,) says which records it was trained on."""
    return _finding(
        f"LiRA {'online' if online else 'offline'}",
        f"sees the probability the model gives to the true label, and trained "
        f"{len(np.asarray(inside))} models like it {'with and without' if online else 'without'} each record",
        lira_scores(target, shadows, inside, online=online),
        members,
        confidence,
    )


def _normal(answers: Floats, chosen: Booleans, side: str) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each record over the chosen models, both (n,)."""
    counts = chosen.sum(axis=0)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        raise BadInput(
            f"{empty.size} of {counts.size} records have no shadow model {side}, first record {empty[0]}: "
            "each needs one at least."
        )
    means = np.where(chosen, answers, 0.0).sum(axis=0) / counts
    squares = np.where(chosen, (answers - means) ** 2, 0.0).sum(axis=0)
    freedom = int(np.sum(counts - 1))
    if freedom == 0 or not squares.any():
        raise BadInput(
            f"the shadow models {side} show no spread: some record needs two of them with different logits."
        )
    pooled = squares.sum() / freedom
    if counts.min() < ENOUGH:
        return means, np.full(means.shape, pooled)
    # A record on which the shadow models happen to agree is not thereby certain.
    return means, np.maximum(squares / (counts - 1), 1e-4 * pooled)


def rmia_scores(
    target: npt.ArrayLike,
    references: npt.ArrayLike,
    population: npt.ArrayLike,
    population_references: npt.ArrayLike,
    *,
    inside: npt.ArrayLike | None = None,
    population_inside: npt.ArrayLike | None = None,
) -> Floats:
    """Return one score for each record in [0, 1], higher for members: the share of z with LR(x, z) ≥ 2.

    ``target`` (n,) are the target's probabilities of the true label of n records and ``references``
    (models, n) those of the reference models; ``population`` (k,) and ``population_references`` (models, k)
    are the same for records z that the target was not trained on.

    Offline (``inside`` is None) no reference model was trained on any of the n records. p(x) is the mean of
    what models with x and without x say, and the former is taken to be a·p_out(x) + 1 − a for a = 0.3, so
    that p(x) = ((1 + a)·p_out(x) + 1 − a)/2. Online, ``inside`` (models, n) says which model was trained on
    which record; p(x) is the mean of the two averages. ``population_inside`` (models, k) says the same of z.
    """
    groups = [
        _aligned(target, references, "probabilities of records"),
        _aligned(population, population_references, "probabilities of the population"),
    ]
    if any(((values < 0.0) | (values > 1.0 + 1e-6)).any() for group in groups for values in group):
        raise BadInput("probabilities for RMIA lie outside 0 to 1.")
    if len(groups[0][1]) != len(groups[1][1]):
        raise BadInput(
            f"{len(groups[0][1])} reference models answered about the records and {len(groups[1][1])} about "
            "the population: they must be the same models."
        )
    ratios, others = (
        _ratio(values, _average(answers, mask))
        for (values, answers), mask in zip(groups, (inside, population_inside), strict=True)
    )
    return np.asarray(np.searchsorted(np.sort(GAMMA * others), ratios, side="right") / others.size)


def rmia(
    target: npt.ArrayLike,
    members: npt.ArrayLike,
    references: npt.ArrayLike,
    population: npt.ArrayLike,
    population_references: npt.ArrayLike,
    *,
    inside: npt.ArrayLike | None = None,
    population_inside: npt.ArrayLike | None = None,
    confidence: float = 0.99,
) -> Finding:
    """Attack the target with `rmia_scores`; ``members`` (n,) says which records it was trained on."""
    return _finding(
        f"RMIA {'offline' if inside is None else 'online'}",
        f"sees the probability the model gives to the true label, also for {np.size(population)} other "
        f"records, and trained {len(np.asarray(references))} models like it",
        rmia_scores(
            *(target, references, population, population_references),
            inside=inside,
            population_inside=population_inside,
        ),
        members,
        confidence,
    )


def _average(answers: Floats, inside: npt.ArrayLike | None) -> Floats:
    if inside is None:
        return np.asarray(((1.0 + A) * answers.mean(axis=0) + (1.0 - A)) / 2.0)
    trained = _mask(inside, answers.shape)
    counts = trained.sum(axis=0)
    lacking = np.flatnonzero((counts == 0) | (counts == len(trained)))
    if lacking.size:
        raise BadInput(
            f"{lacking.size} of {counts.size} records lack a reference model inside or outside, first record "
            f"{lacking[0]}: each needs one of both."
        )
    within = np.where(trained, answers, 0.0).sum(axis=0) / counts
    without = np.where(trained, 0.0, answers).sum(axis=0) / (len(trained) - counts)
    return np.asarray((within + without) / 2.0)


def _ratio(values: Floats, average: Floats) -> Floats:
    # A label that only the target predicts is infinitely suspicious; one that no model predicts is not.
    ratio = np.where(values > 0.0, np.inf, 0.0)
    return np.divide(values, average, out=ratio, where=average > 0.0)


def _finding(attack: str, threat: str, scores: Floats, members: npt.ArrayLike, confidence: float) -> Finding:
    truth = np.asarray(members)
    if truth.dtype != np.bool_ or truth.shape != scores.shape or truth.all() or not truth.any():
        raise BadInput(
            f"`members` must be True or False for each of the {scores.size} records, some of each: "
            f"got {truth.dtype} of shape {truth.shape}.",
            parameter="members",
        )
    return finding_from_scores(attack, threat, scores[truth], scores[~truth], confidence=confidence)


def _mask(inside: npt.ArrayLike, shape: tuple[int, ...]) -> Booleans:
    """Return which model was trained on which record, (models, n); raise for another shape."""
    trained = np.asarray(inside)
    if trained.dtype != np.bool_ or trained.shape != shape:
        raise BadInput(
            f"the mask must be True or False for each model and record, shape {shape}: "
            f"got {trained.dtype} of shape {trained.shape}."
        )
    return trained


def _aligned(target: npt.ArrayLike, models: npt.ArrayLike, name: str) -> tuple[Floats, Floats]:
    """Return values of the target (n,) and of other models (models, n) on the same records, all finite."""
    own, others = numbers(target, f"the target's {name}"), numbers(models, f"the other models' {name}")
    if own.ndim != 1 or others.ndim != 2 or others.shape[1] != own.size:
        raise BadInput(
            f"{name} must be (n,) for the target and (models, n) for one other model or more: "
            f"got {own.shape} and {others.shape}."
        )
    return own, others
