"""Shadow models: models like the target, trained on other records, and the attack network they train.

The attack network is a perceptron with hidden layers of 256, 128 and 64 units and dropout 0.3, trained on
tuples (output, label, membership) of the shadow models (Shokri et al. 2017).

**Held-out records** give members and non-members of one distribution: a random part is not trained on.

CompactDP (section 4.1) trains on 80% of the training records and takes the other 20% as non-members. Nobody
looks at a record to decide where it goes, so an attack that tells the two parts apart has found the model's
memory and not a difference between two distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from sfumato.audits.canary_game import fit_twin
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput
from sfumato.mechanisms import as_array, proper_share

__all__ = ["shadow_attack", "train_shadows"]


Indices = NDArray[np.intp]

Floats = npt.NDArray[np.float64]
Scorer = Callable[[Predictions], Floats]
Booleans = npt.NDArray[np.bool_]
HIDDEN = (256, 128, 64)
DROPOUT = 0.3
STEPS = 200  # at most, in an epoch; batches hold 256 tuples or more


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Which records a model is trained on, ``members``, and which are held out of it, ``nonmembers``."""

    members: Indices
    nonmembers: Indices


def held_out(records: int, *, share: float = 0.2, seed: int = 0) -> HeldOut:
    """Hold out ``share`` of ``records`` records, rounded to a whole number, each equally likely.

    Both parts are in ascending order. The split depends on ``records``, ``share`` and ``seed`` alone. Refused
    where a part would be empty.
    """
    proper_share("share", share)
    count = round(share * records)
    if not 0 < count < records:
        raise BadInput(
            f"holding out {share:g} of {records} records leaves one part empty: members and non-members are "
            "both needed."
        )
    order = np.random.default_rng(seed).permutation(records)
    return HeldOut(np.sort(order[count:]), np.sort(order[:count]))


@dataclass(frozen=True, eq=False)
class Shadows:
    """What shadow models answer about the records they were drawn from.

    ``predictions`` are those of each model on all n records, ``inside`` (models, n) says which of them it
    was trained on, and ``models`` are the models themselves, empty where only their answers are known.
    """

    predictions: tuple[Predictions, ...]
    inside: Booleans
    models: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        inside = np.array(self.inside)
        sizes = {len(item) for item in self.predictions}
        if not self.predictions or len(sizes) > 1 or inside.shape != (len(self.predictions), *sizes):
            raise BadInput(
                f"shadow models need one set of predictions each, all on the same records, and a mask "
                f"(models, records): got {len(self.predictions)} sets and a mask of shape {inside.shape}."
            )
        if inside.dtype != np.bool_:
            raise BadInput(f"the mask of shadow models must hold True and False: got {inside.dtype}.")
        for index, row in enumerate(inside):
            if row.all() or not row.any():
                raise BadInput(
                    f"shadow model {index} has records of one kind only: it needs some it was trained on "
                    "and some it was not."
                )
        inside.setflags(write=False)
        object.__setattr__(self, "inside", inside)

    def pairs(self) -> list[tuple[Predictions, Predictions]]:
        """Return for each model its predictions on records it was trained on, and on those it was not."""
        both = zip(self.predictions, self.inside, strict=True)
        return [(item.rows(inside), item.rows(~inside)) for item, inside in both]

    def scaled_logits(self) -> Floats:
        """Return the scaled logits of the true label by each model, (models, n), as LiRA takes them."""
        return np.stack([item.scaled_logit for item in self.predictions])

    def true_probabilities(self) -> Floats:
        """Return the probabilities of the true label by each model, (models, n), as RMIA takes them."""
        return np.stack([item.true_probability for item in self.predictions])

    def ask(self, X: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Predictions, ...]:
        """Return what each model answers about other records; needs the models."""
        if not self.models:
            raise BadInput("these shadow models are known by their answers only: they cannot be asked again.")
        classes, floor = self.predictions[0].classes, self.predictions[0].floor
        return tuple(_answer(model, np.asarray(X), np.asarray(y), classes, floor) for model in self.models)


def train_shadows(
    factory: Callable[[int], Any],
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    count: int = 100,
    seed: int = 0,
    *,
    floor: float = 1e-12,
    report: Callable[[str, float], None] | None = None,
) -> Shadows:
    """Train ``count`` models, each on half of the records ``X`` (n, …) with labels ``y`` (0 to C − 1).

    ``factory(seed)`` makes an untrained model with ``fit(X, y)`` and ``predict_proba(X)``. Models come in
    pairs whose halves complement each other, so that every record is inside ⌊count/2⌋ or ⌈count/2⌉ models.
    For the attack network and the offline attacks the records must not include the target's; for the online
    attacks they are the very records that are asked about.
    """
    records, labels = as_array(X, "the records"), as_array(y, "the labels")
    if count < 1:
        raise BadInput(f"`count` was {count}: train at least one shadow model.", parameter="count")
    if records.ndim < 1 or labels.ndim != 1 or len(records) != len(labels) or len(labels) < 2:
        raise BadInput(
            f"shadow models need at least two records with one label each: "
            f"got {records.shape} and labels {labels.shape}."
        )
    if labels.dtype.kind not in "biu" or labels.min() < 0 or labels.max() < 1:
        raise BadInput("labels of shadow models must be whole numbers from 0, of two classes or more.")
    classes = int(labels.max()) + 1
    rng = np.random.default_rng(seed)
    inside = np.zeros((count, len(labels)), dtype=np.bool_)
    models, answers = [], []
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
        models.append(model)
        answers.append(_answer(model, records, labels, classes, floor))
        if report is not None:
            report("shadow models", (index + 1) / count)
    return Shadows(tuple(answers), inside, tuple(models))


def _answer(model: Any, X: npt.NDArray[Any], y: npt.NDArray[Any], classes: int, floor: float) -> Predictions:
    answered = np.asarray(model.predict_proba(X), dtype=np.float64)
    known = getattr(model, "classes_", None)
    if known is None or answered.ndim != 2 or answered.shape[1] == classes:
        return Predictions(answered, y, floor)
    # A model that never saw some class has no column for it.
    full = np.zeros((len(answered), classes))
    full[:, np.asarray(known, dtype=np.int64)] = answered
    return Predictions(full, y, floor)


def train_attack_network(
    shadows: Sequence[tuple[Predictions, Predictions]],
    *,
    epochs: int = 20,
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
    if epochs < 1:
        raise BadInput(f"`epochs` was {epochs}: train for at least one.", parameter="epochs")
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
        for epoch in range(epochs):
            for batch in torch.split(torch.randperm(len(inputs)), max(256, -(-len(inputs) // STEPS))):
                optimiser.zero_grad()
                criterion(network(inputs[batch]).squeeze(1), truth[batch]).backward()
                optimiser.step()
            if report is not None:
                report("attack network", (epoch + 1) / epochs)
    network.eval()

    def score(predictions: Predictions) -> Floats:
        check_comparable(flat[0], predictions)
        asked = torch.tensor((_features(predictions) - centre) / spread, dtype=torch.float32)
        with torch.no_grad():
            return np.asarray(network(asked).squeeze(1).numpy(), dtype=np.float64)

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
    epochs: int = 20,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> Finding:
    """Train the attack network on ``shadows``, as `train_attack_network` does, and attack the target with it.

    The shadow models' records must come from the target's distribution and must not be the target's.
    """
    check_comparable(members, nonmembers)
    score = train_attack_network(shadows, epochs=epochs, seed=seed, report=report)
    return finding_from_scores(
        "shadow models",
        f"sees the model's answers and trained {len(shadows)} models like it on other records of "
        "the same distribution",
        score(members),
        score(nonmembers),
        confidence=confidence,
    )
