"""Shadow models: models like the target, trained on other records, and the attack network they train.

The attack network is a perceptron with hidden layers of 256, 128 and 64 units and dropout 0.3, trained on
tuples (output, label, membership) of the shadow models (Shokri et al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audits.canary_game import fit_twin
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["shadow_attack"]

Floats = npt.NDArray[np.float64]
Scorer = Callable[[Predictions], Floats]
Booleans = npt.NDArray[np.bool_]
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
