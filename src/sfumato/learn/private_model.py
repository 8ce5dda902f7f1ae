"""Which torch models can be trained with noise: each record is treated alone, and scores each class.

A proof for the gradient of one example needs outputs of one row that do not depend on other rows. That cannot
be read off a module, so besides refusing layers that are known to mix rows, the model is tried on random
rows that have nothing to do with the data: outputs and, in training, gradients of one row must not move with
the others, whatever their number, and nothing of them may stay in a buffer.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy

from sfumato.errors import BadInput
from sfumato.learn.dp_sgd import example_gradients

__all__ = ["checked_model", "grad_sampled"]

_ROWS = 4


def grad_sampled(model: Module) -> Any:
    """``model`` wrapped by Opacus, so that a backward pass leaves the gradients of single examples."""
    try:
        from opacus import GradSampleModule
    except ImportError:
        raise BadInput("gradients of single examples need Opacus: pip install 'sfumato[learn]'.") from None
    try:
        return GradSampleModule(model, loss_reduction="sum")
    except (NotImplementedError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise BadInput(f"Opacus cannot take gradients of single examples of this model ({reason}).") from None


def checked_model(model: Any, shape: Sequence[int], classes: int | None = None) -> tuple[Module, int]:
    """A copy of ``model`` in training mode, and how many classes it scores in records of ``shape``.

    Refuses layers that mix rows, models without trainable parameters or with others than float32 on the
    processor, and outputs that are not (records, ``classes``).
    """
    if not isinstance(model, Module):
        raise BadInput(f"the model is a {type(model).__name__}: a torch module or a learner is needed.")
    _check_layers(model)
    copied = copy.deepcopy(model).train()
    trained = [part for part in copied.parameters() if part.requires_grad]
    if not trained:
        raise BadInput("the model has no trainable parameters: nothing could be learned.")
    if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in copied.parameters()):
        raise BadInput("the model has parameters that are not float32 on the processor: call .float().cpu().")
    if not all(bool(part.isfinite().all()) for part in copied.parameters()):
        raise BadInput("the model has parameters that are not finite: initialise it again.")
    rows = torch.randn((_ROWS, *shape), generator=torch.Generator().manual_seed(0))
    scores = _scores(copied, rows)
    if scores.ndim != 2 or len(scores) != _ROWS or scores.shape[1] < 2:
        raise BadInput(
            f"the model gives an output of shape {tuple(scores.shape)} for {_ROWS} records: ({_ROWS}, "
            "classes) with two classes or more is needed."
        )
    if classes is not None and scores.shape[1] != classes:
        raise BadInput(f"the model scores {scores.shape[1]} classes, and {classes} were declared.")
    others = rows.clone()
    others[1:] = torch.randn(others[1:].shape, generator=torch.Generator().manual_seed(1))
    if not torch.equal(scores[0], _scores(copied, others)[0]):
        raise BadInput(
            "the model's output for one record depends on the other records of a batch: no gradient would "
            "belong to one record alone."
        )
    _check_gradients(copied, rows, others, int(scores.shape[1]))
    return copied, int(scores.shape[1])


def _check_gradients(model: Module, rows: Tensor, others: Tensor, classes: int) -> None:
    """Refuse a model whose gradients, in training, are not those of single examples, or that keeps any.

    ``others`` have the first row of ``rows``. Dropout draws the same for both, from a generator that is put
    back afterwards.
    """
    tried = copy.deepcopy(model).train()
    before = [part.clone() for part in tried.buffers()]
    wrapped = grad_sampled(tried)
    first, second = (_first_gradients(wrapped, given, classes) for given in (rows, others))
    _first_gradients(wrapped, torch.cat([rows, others[1:]]), classes)
    if not all(torch.equal(one, other) for one, other in zip(first, second, strict=True)):
        raise BadInput(
            "the gradient of one record depends on the other records of a batch: nothing could be proven."
        )
    if not all(torch.equal(one, other) for one, other in zip(before, tried.buffers(), strict=True)):
        raise BadInput(
            "the model keeps something of the records that it sees in a buffer, without noise: it would "
            "leave with the model."
        )


def _first_gradients(wrapped: Any, rows: Tensor, classes: int) -> list[Tensor]:
    """The gradients of the first row; refuses parameters that have not one for each row."""
    labels = torch.arange(len(rows)) % classes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loss = cross_entropy(wrapped(rows.clone().requires_grad_()), labels, reduction="sum")
        loss.backward()  # type: ignore[no-untyped-call]
    trained = [part for part in wrapped.parameters() if part.requires_grad]
    found = [gradient[0].clone() for gradient in example_gradients(trained, len(rows))]
    for part in trained:
        part.grad = part.grad_sample = None
    return found


def _check_layers(model: Module) -> None:
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            raise BadInput(
                f"the layer {name or 'of the model'} is a {kind}, which mixes the records of a batch, so "
                "that no gradient belongs to one record alone: use GroupNorm or LayerNorm."
            )
        if getattr(module, "track_running_stats", False):
            raise BadInput(
                f"the layer {name or 'of the model'} is a {kind} that keeps statistics of the records "
                "without noise: use track_running_stats=False."
            )


def _scores(model: Module, rows: Tensor) -> Tensor:
    """Scores without dropout, which would be new with each call."""
    model.eval()
    try:
        with torch.no_grad():
            found = model(rows)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise BadInput(
            f"the model does not take records of shape {tuple(rows.shape[1:])} ({reason})."
        ) from None
    finally:
        model.train()
    if not isinstance(found, Tensor):
        raise BadInput(f"the model gives a {type(found).__name__}: a tensor (records, classes) is needed.")
    return found
