"""A softmax head trained by DP-SGD on given features: Poisson samples, Opacus's gradients, noisy sums."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import skip_init

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import DPSGD
from sfumato.learners.examples import Floats, Labels
from sfumato.learners.learner import Report
from sfumato.noise import Randomness

__all__ = ["noisy_head"]


def noisy_head(
    features: NDArray[np.float32],
    labels: Labels,
    classes: int,
    training: DPSGD,
    *,
    pace: float,
    momentum: float,
    randomness: Randomness,
    report: Report | None = None,
) -> Floats:
    """Weights (1 + p, classes), a constant's first: the mean over the last half of the steps of ``training``.

    Steps have size ``pace`` with ``momentum`` and start from 0; both are post-processing of noisy sums.
    """
    try:
        from opacus import GradSampleModule
    except ImportError:
        raise BadInput("gradients of single examples need Opacus: pip install 'sfumato[learn]'.") from None
    layer: nn.Linear = skip_init(nn.Linear, features.shape[1], classes)  # type: ignore[no-untyped-call]
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    wrapped = GradSampleModule(layer, loss_reduction="sum")
    parameters = list(layer.parameters())
    optimiser = torch.optim.SGD(parameters, lr=pace, momentum=momentum)
    noisy = training.noisy(randomness)
    rows, kinds = torch.from_numpy(features), torch.from_numpy(labels)
    mean, kept = torch.zeros(1 + features.shape[1], classes, dtype=torch.float64), 0
    for step, taken in enumerate(training.samples(len(rows), randomness.stream(b"head samples"))):
        if taken.size:
            # Asked for a gradient, which nobody uses, so that torch's backward hooks do not warn of it.
            logits = wrapped(rows[taken].requires_grad_())
            loss = nn.functional.cross_entropy(logits, kinds[taken], reduction="sum")
            loss.backward()  # type: ignore[no-untyped-call]
        training.set_gradients(parameters, noisy, len(rows), len(taken))
        optimiser.step()
        if 2 * (step + 1) > training.steps:
            mean += torch.cat([layer.bias.detach()[None], layer.weight.detach().T]).double()
            kept += 1
        if report is not None:
            report("noisy head", (step + 1) / training.steps)
    wrapped.to_standard_module()
    return np.asarray((mean / kept).numpy())
