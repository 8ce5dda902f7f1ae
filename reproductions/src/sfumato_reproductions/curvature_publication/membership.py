"""Membership attacks on a classifier that learned from published pictures, and on the pictures themselves."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Predictions, class_scorer
from sfumato_reproductions.curvature_publication.candidates import (
    AS_THE_PAPER,
    MATCHED,
    Candidates,
    Success,
    rounds,
)
from sfumato_reproductions.curvature_publication.downstream import Learned, planar, seeded
from sfumato_reproductions.curvature_publication.imbalance import Floats, Imbalanced, Part

__all__ = ["ART", "LOSS", "NEAREST", "TAIL", "TOOLBOX", "attack_all", "has_art", "right_about"]

ART, LOSS, NEAREST, TAIL = "ART", "loss threshold", "nearest picture", "tail classes"

#: The package of the paper's attack; many others are called ``art``.
TOOLBOX = "adversarial-robustness-toolbox"

Floats64 = NDArray[np.float64]
Scorer = Callable[[Predictions], Floats64]
Called = tuple[NDArray[np.bool_], NDArray[np.bool_]]

_BLOCK = 500


def has_art() -> bool:
    """Whether the Adversarial Robustness Toolbox is installed."""
    try:
        importlib.metadata.version(TOOLBOX)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def attack_all(
    data: Imbalanced, learned: Learned, published: Part, *, attacked: int, seed: int, epochs: int = 100
) -> dict[str, Success]:
    """Attack and protocol -> success, the keys being such as ``"ART, class-matched"``.

    ``epochs`` are those of ART's network; without the toolbox its rows are left out.
    ``"…, class-matched, tail classes"`` counts only the classes of which few pictures were private.
    """
    answers = learned.predictions(data.private), learned.predictions(data.tests)
    found: dict[str, Success] = {}
    asked = {protocol: rounds(data, protocol, attacked, seed) for protocol in (AS_THE_PAPER, MATCHED)}
    for protocol, chosen in ((protocol, one) for protocol, every in asked.items() for one in every):
        called: dict[str, Called] = {LOSS: _by_loss(answers, chosen)}
        if has_art():
            called[ART] = _by_art(data, learned, chosen, seed, epochs)
        if protocol == MATCHED:
            called[NEAREST] = _by_nearest(data, published.pictures, chosen)
        for attack, sides in called.items():
            tried = {f"{attack}, {protocol}": chosen.success(*sides)}
            if protocol == MATCHED:
                tried[f"{attack}, {protocol}, {TAIL}"] = _of_tail(data, chosen, sides)
            found |= {key: found.get(key, Success(0, 0)) + success for key, success in tried.items()}
    return found


def right_about(
    data: Imbalanced, learned: Learned, protocol: str, *, attacked: int, seed: int, epochs: int = 100
) -> tuple[Part, NDArray[np.bool_], NDArray[np.bool_]]:
    """Members and non-members that an attack was asked about, whether it was right, and who is a member.

    As the paper the attack is ART's, where it is installed; otherwise it is our threshold on the loss.
    """
    sides: list[Part] = []
    called: list[NDArray[np.bool_]] = []
    for chosen in rounds(data, protocol, attacked, seed):
        if protocol == AS_THE_PAPER and has_art():
            called += _by_art(data, learned, chosen, seed, epochs)
        else:
            called += _by_loss((learned.predictions(data.private), learned.predictions(data.tests)), chosen)
        sides += [data.private.rows(chosen.asked[0]), data.tests.rows(chosen.asked[1])]
    asked = Part(
        *(np.concatenate([getattr(side, name) for side in sides]) for name in ("pictures", "labels"))
    )
    members = np.concatenate([np.full(len(side), number % 2 == 0) for number, side in enumerate(sides)])
    return asked, np.concatenate(called) == members, members


def _of_tail(data: Imbalanced, chosen: Candidates, sides: Called) -> Success:
    labels = data.private.labels[chosen.asked[0]], data.tests.labels[chosen.asked[1]]
    members, nonmembers = (side[np.isin(own, data.tail)] for side, own in zip(sides, labels, strict=True))
    return chosen.success(members, nonmembers)


def _by_loss(answers: tuple[Predictions, Predictions], chosen: Candidates) -> Called:
    """One threshold for all or one a class, whichever does better on the known half."""
    known = answers[0].rows(chosen.known[0]), answers[1].rows(chosen.known[1])
    asked = answers[0].rows(chosen.asked[0]), answers[1].rows(chosen.asked[1])
    scorers: tuple[Scorer, ...] = (lambda predictions: -predictions.loss, class_scorer(*known))
    tried: list[tuple[float, Called]] = []
    for score in scorers:
        threshold, advantage = _threshold(score(known[0]), score(known[1]))
        tried.append((advantage, (score(asked[0]) >= threshold, score(asked[1]) >= threshold)))
    return max(tried, key=lambda pair: pair[0])[1]


def _threshold(members: Floats64, nonmembers: Floats64) -> tuple[float, float]:
    """From which score on a record is called a member, and the advantage of that among known ones."""
    from sklearn.metrics import roc_curve

    truth = np.repeat([1, 0], [len(members), len(nonmembers)])
    scores = np.concatenate([members, nonmembers])
    false, true, thresholds = roc_curve(truth, scores, drop_intermediate=False)
    best = int(np.argmax(true - false))
    return float(thresholds[best]), float(true[best] - false[best])


def _by_nearest(data: Imbalanced, published: Floats, chosen: Candidates) -> Called:
    """Candidates that have a published picture nearer than others have; no classifier is needed."""
    flat = published.reshape(len(published), -1) / np.float32(255.0)
    lengths = np.einsum("ij,ij->i", flat, flat)

    def score(part: Part, rows: NDArray[np.intp]) -> Floats64:
        asked = part.pictures[rows].reshape(len(rows), -1) / np.float32(255.0)
        nearest = [
            (lengths - 2.0 * (block @ flat.T)).min(axis=1) + np.einsum("ij,ij->i", block, block)
            for block in np.array_split(asked, max(1, len(asked) // _BLOCK))
        ]
        return -np.concatenate(nearest).astype(np.float64)

    parts = (data.private, data.tests)
    known = [score(part, rows) for part, rows in zip(parts, chosen.known, strict=True)]
    asked = [score(part, rows) for part, rows in zip(parts, chosen.asked, strict=True)]
    threshold, _ = _threshold(known[0], known[1])
    return asked[0] >= threshold, asked[1] >= threshold


def _by_art(data: Imbalanced, learned: Learned, chosen: Candidates, seed: int, epochs: int) -> Called:
    """The paper's attack: a network that is given the loss and the label."""
    import torch
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
    from art.estimators.classification import PyTorchClassifier

    parts = (data.private, data.tests)
    inputs: Mapping[str, list[Any]] = {
        name: [
            value
            for part, rows in zip(parts, sides, strict=True)
            for value in (planar(part.pictures[rows]), part.labels[rows])
        ]
        for name, sides in (("known", chosen.known), ("asked", chosen.asked))
    }
    shape = inputs["known"][0].shape[1:]
    state = np.random.get_state()
    np.random.seed(seed)  # ART's learners take the global generators; both come back below
    try:
        with seeded(seed):
            target = PyTorchClassifier(learned.model, torch.nn.CrossEntropyLoss(), shape, data.classes)
            attack = MembershipInferenceBlackBox(target, input_type="loss", nn_model_epochs=epochs)
            attack.fit(*inputs["known"])
            members, nonmembers = (
                np.asarray(attack.infer(*inputs["asked"][start : start + 2])).ravel() > 0.5
                for start in (0, 2)
            )
    finally:
        np.random.set_state(state)
    return members, nonmembers
