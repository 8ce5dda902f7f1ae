"""Gradients of single records for any torch model, by a program that reads one record at a time.

A model is Python code. On private records it could branch on a whole batch, keep what it saw in a buffer, in
a parameter that needs no gradient, in an attribute or in a global variable, and no trial on other rows would
show it. So the model's code never runs on a record. It runs once, before the data is used, on one record
without values (torch's fake tensors), and what is written down is a straight-line program of torch's own
operators: the gradient of the loss as a function of (trained parameters, frozen parameters and buffers, one
record, its label). The program alone is then evaluated, by ``torch.func.vmap``, for each record by itself.

**Theorem.** Let s be the trained parameters before a step, c what the model came with besides them, r the
random bits of dropout, drawn by place in the batch. The vectors of a step are g(s, c, xᵢ, yᵢ, rᵢ) for the
records i that were taken, with one function g that was fixed before any record was read. So the clipped sum
is Σᵢ clip(g(s, c, xᵢ, yᵢ, rᵢ)); a null record in the place of i changes the term i alone, by the length of
one clip at most. By induction over the steps s is a function of noisy sums, and c never changes: the state
that leaves with the model is c and the last s.

Why g is a function of one record: the program has no operator that writes to its inputs or to constants, no
operator that is not torch's own (aten), none that reads uninitialised memory or beyond the bounds of a
tensor, and no branch, because a fake tensor has no value to branch on. What is trusted is torch: its
operators compute functions of their arguments, and ``vmap`` evaluates them record by record. A model whose
code patches torch or this process is outside of what any check here can see.

**Whether a model appears is no output.** Operators that fail for some values (looking up a position computed
from a record, dividing whole numbers) are refused beforehand. Gradients that are not finite count as zero.

**Edge cases.** Refused in one sentence: code that branches on a value, ``.item()``, writing to a parameter or
buffer in ``forward``, operators of other libraries, autograd functions that torch.func cannot transform.
Python code in ``forward`` runs once, so numbers that it draws or counts itself stay as they were in that run.
A hook sees records without values. The model must not hold the private records to begin with: what it comes
with is taken as public, and the statement says so.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from sfumato.errors import BadInput

_ROWS = 4
_TRIED = 0x5F3A

# Functions of their arguments like those of the core set, into which torch does not take them apart.
_MORE = frozenset(
    {
        "adaptive_max_pool2d",
        "adaptive_max_pool2d_backward",
        "bernoulli",
        "lift_fresh_copy",
        "linalg_vector_norm",
        "max",
        "min",
        "native_batch_norm",
        "upsample_bicubic2d",
        "upsample_bilinear2d",
        "upsample_bilinear2d_backward",
        "upsample_linear1d",
        "upsample_nearest1d_backward",
        "upsample_nearest2d_backward",
    }
)
# A value of a record would become a number of Python, the shape of a tensor, or a place in memory.
_NEVER = frozenset(
    {"_local_scalar_dense", "as_strided", "masked_scatter", "masked_select", "nonzero", "resize", "resize_"}
)
# These fail where a whole number is zero.
_DIVISIONS = frozenset({"div", "floor_divide", "fmod", "pow", "remainder"})
# Their second output are positions along a dimension of their first argument.
_POSITIONS = frozenset({"max", "min", "sort", "topk"})
# Their second output are positions in a plane of their first argument, which the others write to unchecked.
_POOLS = {
    "adaptive_max_pool2d_backward": "adaptive_max_pool2d",
    "max_pool2d_with_indices_backward": "max_pool2d_with_indices",
}
_SAME_NUMBERS = frozenset({"clone", "expand", "permute", "squeeze", "unsqueeze", "view"})
# What may be done, beside elementwise operators, with whole numbers that were computed from a record.
_ANY_NUMBERS = (
    _SAME_NUMBERS
    | _POSITIONS
    | frozenset(
        {
            "amax",
            "amin",
            "any",
            "argmax",
            "argmin",
            "cat",
            "cumsum",
            "full_like",
            "repeat",
            "select",
            "slice",
            "sum",
        }
    )
)


class RecordGradients:
    """The gradient of each record's cross-entropy in each of the trained ``parameters`` of a model.

    ``model`` maps (1, …) to scores (1, ``classes``) for a record of ``shape``; its code runs here, on a
    record without values, and never again. Its parameters are read at each call, and left as they are.
    """

    def __init__(self, model: Module, shape: Sequence[int], classes: int) -> None:
        named = dict(model.named_parameters())
        self._trained = {name: part for name, part in named.items() if part.requires_grad}
        self._fixed = {
            name: part.detach() for name, part in (*named.items(), *model.named_buffers())
            if name not in self._trained
        }  # fmt: skip
        _check_plain((*self._trained.values(), *self._fixed.values()))
        self._classes = classes
        self.parameters = list(self._trained.values())
        self._program = torch.func.vmap(
            self._recorded(copy.deepcopy(model).train(), shape),
            in_dims=(None, None, 0, 0),
            randomness="different",
        )
        rows = torch.randn((_ROWS, *shape), generator=torch.Generator().manual_seed(_TRIED))
        with _refuse("cannot be evaluated record by record"), torch.random.fork_rng(devices=[]):
            self(rows, torch.arange(_ROWS) % classes)

    def __call__(self, rows: Tensor, labels: Tensor) -> list[Tensor]:
        """Return gradients (n, …), one tensor for each trained parameter, of records and labels (n,)."""
        trained = {name: part.detach() for name, part in self._trained.items()}
        targets = torch.nn.functional.one_hot(labels, self._classes).to(rows.dtype)
        with torch.no_grad():
            found = self._program(trained, self._fixed, rows, targets)
        return [found[name] for name in self._trained]

    def _recorded(self, model: Module, shape: Sequence[int]) -> Any:
        """Return the gradient of one record's loss as a program of operators on one record."""
        from torch.fx.experimental.proxy_tensor import make_fx

        def loss(trained: Any, fixed: Any, row: Tensor, target: Tensor) -> Tensor:
            # A copy, so that a first layer that works in place writes to nothing that is kept.
            scores = torch.func.functional_call(model, (trained, fixed), (row.unsqueeze(0).clone(),))
            return -(torch.log_softmax(scores, dim=1)[0] * target).sum()

        trained = {name: part.detach() for name, part in self._trained.items()}
        with (
            _refuse(
                "cannot be evaluated on one record alone: its code must not branch on values of a record, "
                "turn them into numbers of Python or keep them"
            ),
            torch.random.fork_rng(devices=[]),
            # Fused attention would stand in the program as one operator.
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        ):
            program = make_fx(
                torch.func.functionalize(torch.func.grad(loss)),
                tracing_mode="fake",
                decomposition_table=_decompositions(),
                _allow_non_fake_inputs=True,
            )(trained, self._fixed, torch.zeros(*shape), torch.zeros(self._classes))
        _initialise(program)
        _check_operators(program)
        return program


@cache
def _decompositions() -> dict[Any, Any]:
    """Return how operators are composed of core ones; torch collects them anew whenever it is asked."""
    from torch._decomp import core_aten_decompositions

    core: Any = core_aten_decompositions()
    return dict(core.items())


def checked_model(
    model: Any, shape: Sequence[int], classes: int | None = None
) -> tuple[Module, RecordGradients, int]:
    """Return a copy of ``model`` in training mode, its gradients, and how many classes it scores.

    Refuses models without trainable parameters or with others than float32 on the processor, outputs that
    are not (records, ``classes``), and what the module's documentation names. A model that mixes the rows of
    a batch where random rows show it is refused too: its gradients would be those of single records, and
    not what its answers to a batch are.
    """
    if not isinstance(model, Module):
        raise BadInput(f"the model is a {type(model).__name__}: a torch module or a learner is needed.")
    _check_layers(model)
    _check_plain((*model.parameters(), *model.buffers()))
    with _refuse("cannot be copied"):
        copied = copy.deepcopy(model).train()
    # A model may copy itself as something else.
    _check_plain((*copied.parameters(), *copied.buffers()))
    if not any(part.requires_grad for part in copied.parameters()):
        raise BadInput("the model has no trainable parameters: nothing could be learned.")
    if any(part.dtype != torch.float32 or part.device.type != "cpu" for part in copied.parameters()):
        raise BadInput("the model has parameters that are not float32 on the processor: call .float().cpu().")
    if not all(bool(part.isfinite().all()) for part in copied.parameters()):
        raise BadInput("the model has parameters that are not finite: initialise it again.")
    rows = torch.randn((_ROWS, *shape), generator=torch.Generator().manual_seed(0))
    scores = _scores(copied, rows, training=False)
    if scores.ndim != 2 or len(scores) != _ROWS or scores.shape[1] < 2:
        raise BadInput(
            f"the model gives an output of shape {tuple(scores.shape)} for {_ROWS} records: ({_ROWS}, "
            "classes) with two classes or more is needed."
        )
    if classes is not None and scores.shape[1] != classes:
        raise BadInput(f"the model scores {scores.shape[1]} classes, and {classes} were declared.")
    others = rows.clone()
    others[1:] = torch.randn(others[1:].shape, generator=torch.Generator().manual_seed(1))
    for training in (False, True):
        if not torch.equal(*(_scores(copied, given, training=training)[0] for given in (rows, others))):
            raise BadInput(
                "the model's output for one record depends on the other records of a batch: no gradient "
                "would belong to one record alone."
            )
    return copied, RecordGradients(copied, shape, int(scores.shape[1])), int(scores.shape[1])


def _check_plain(parts: Iterable[Tensor]) -> None:
    """Refuse tensors with code of their own, which would see whole batches."""
    for part in parts:
        if type(part) not in (Tensor, Parameter):
            raise BadInput(
                f"the model holds a {type(part).__name__}: plain tensors and parameters are needed."
            )


@contextmanager
def _refuse(fails: str) -> Iterator[None]:
    """Turn whatever the code of a model raises into a refusal that says what the model ``fails``.

    Nothing of the data has been used where this stands.
    """
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise BadInput(f"the model {fails} ({reason}).") from None


def _initialise(program: Any) -> None:
    """Zeros in place of uninitialised memory, which may hold what other records left there."""
    for node in list(program.graph.nodes):
        if node.op == "call_function" and "empty" in _name(node):
            shape, dtype = list(node.meta["val"].shape), node.meta["val"].dtype
            with program.graph.inserting_before(node):
                zeros = program.graph.call_function(torch.ops.aten.full.default, (shape, 0), {"dtype": dtype})
            zeros.meta = node.meta
            node.replace_all_uses_with(zeros)
            program.graph.erase_node(node)
    program.recompile()


def _check_operators(program: Any) -> None:
    """Refuse a program with operators that are not functions of one record, or that fail for some."""
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    touched = set(inputs[-2:])  # the record and its label
    for node in program.graph.nodes:
        if node.op == "get_attr" and type(getattr(program, node.target)) not in (Tensor, Parameter):
            raise BadInput("the model uses a tensor that is not a plain one: its code could mix records.")
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if node.op != "call_function":
            raise BadInput("the model's code changes the program that is written down of it.")
        if any(given in touched for given in node.all_input_nodes):
            touched.add(node)
        if node.target is operator.getitem:
            continue
        name = _name(node)
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.name.startswith("aten::"):
            raise BadInput(
                f"the model uses the operator {node.target}: only those of torch itself are known."
            )
        if schema.is_mutable:
            raise BadInput(
                "the model writes to a buffer, a parameter or another tensor that it keeps, and would carry "
                "something of the records without noise: forward must leave the model as it is."
            )
        known = torch.Tag.core in node.target.tags or torch.Tag.pointwise in node.target.tags
        # Polynomials of a degree that a record gives would take as long as the degree.
        if name in _NEVER or "polynomial" in name or not (known or name in _MORE):
            raise BadInput(
                f"the model uses the operator {name}, which is not one of those that are known to treat each "
                "record alone and to work for all values of it."
            )
        if node in touched and _may_fail(node, touched):
            raise BadInput(
                f"the model uses the operator {name} with whole numbers computed from a record, which fails "
                "for some values: whether a model appears must not depend on a record."
            )


def _may_fail(node: Any, touched: set[Any]) -> bool:
    """Return whether there are values of a record for which this operator raises, or leaves its own record.

    Whole numbers that were computed from a record are taken where all of them are harmless, and as positions
    where they are known to be positions of just this: an operator that is not listed is refused with them.
    """
    name = _name(node)
    if name in _DIVISIONS and _is_whole(node):
        return True
    if name in _ANY_NUMBERS or torch.Tag.pointwise in node.target.tags:
        return False
    places = [given for given in node.all_input_nodes if given in touched and _is_whole(given)]
    return not all(_within(place, node) or _pooled(place, node) for place in places)


def _within(place: Any, node: Any) -> bool:
    """Return whether ``place`` are positions along a dimension no longer than that ``node`` fills."""
    if _name(node) != "scatter" or place is not _argument(node, "index"):
        return False
    while _name(place) in _SAME_NUMBERS:
        place = place.args[0]
    if place.target is not operator.getitem or place.args[1] != 1 or _name(place.args[0]) not in _POSITIONS:
        return False
    found = place.args[0]
    searched, filled = found.args[0].meta["val"].shape, node.args[0].meta["val"].shape
    return bool(searched[_argument(found, "dim")] <= filled[_argument(node, "dim")])


def _pooled(place: Any, node: Any) -> bool:
    """Return whether ``node`` is the gradient of that pooling, of the same input, that found ``place``."""
    pool = _POOLS.get(_name(node))
    if pool is None or place.target is not operator.getitem or place.args[1] != 1:
        return False
    found = place.args[0]
    names = [one.name for one in found.target._schema.arguments if one.name != "output_size"]
    return bool(
        _name(found) == pool
        and place is _argument(node, "indices")
        and all(_argument(node, name) == _argument(found, name) for name in names)
        and _argument(node, "grad_output").meta["val"].shape == place.meta["val"].shape
    )


def _argument(node: Any, name: str) -> Any:
    """Return the argument ``name`` of an operator, or its default."""
    for place, one in enumerate(node.target._schema.arguments):
        if one.name == name:
            given = node.args[place] if place < len(node.args) else node.kwargs.get(name, one.default_value)
            return list(given) if isinstance(given, list | tuple) else given
    raise AssertionError(f"{node.target} has no argument {name}")


def _is_whole(node: Any) -> bool:
    """Return whether the tensor of ``node`` has whole numbers; those that are true or false cannot fail."""
    dtype = getattr(node.meta.get("val"), "dtype", torch.float32)
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _name(node: Any) -> str:
    """Return the name of an operator without its library and overload."""
    schema = getattr(node.target, "_schema", None)
    return str(
        getattr(node.target, "__name__", node.target) if schema is None else schema.name.split("::")[1]
    )


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


def _scores(model: Module, rows: Tensor, *, training: bool) -> Tensor:
    """Return scores by a copy that is thrown away; dropout draws the same in each call."""
    tried = copy.deepcopy(model).train(training)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            found = tried(rows.clone())
        except Exception as error:
            reason = " ".join(str(error).split())[:160]
            raise BadInput(
                f"the model does not take records of shape {tuple(rows.shape[1:])} ({reason})."
            ) from None
    if not isinstance(found, Tensor):
        raise BadInput(f"the model gives a {type(found).__name__}: a tensor (records, classes) is needed.")
    return found
