"""Gradients of single records: right for models that are accepted, and out of reach of code that mixes."""

import copy
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from sfumato.errors import BadInput
from sfumato.learners.private_fit import fit_private
from sfumato.learners.record_gradients import RecordGradients, checked_model
from sfumato.noise import Seeded

ROWS = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
KINDS = np.arange(200) % 3


class Headed(nn.Module):
    """A linear layer behind ``seen``, which other models here change; it comes with a mean that is frozen."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 3)
        self.mean = nn.Parameter(torch.zeros(5), requires_grad=False)
        self.register_buffer("shift", torch.zeros(5))

    def seen(self, rows):
        return rows

    def forward(self, rows):
        return self.head(self.seen(rows))


# --- models that mix records, or keep them, in ways that no trial on rows of usual size shows


class Branching(Headed):
    def seen(self, rows):
        return rows / 255 if rows.max() > 10 else rows


class BranchingByItem(Headed):
    def seen(self, rows):
        return rows / max(1.0, rows.abs().max().item() / 10)


class DividingByItem(Headed):
    def seen(self, rows):
        return rows / rows.norm().item()


class RunningMean(Headed):
    def seen(self, rows):
        if self.training:
            self.mean.data.mul_(0.9).add_(0.1 * rows.detach().mean(dim=0))
        return rows


class Keeping(Headed):
    def seen(self, rows):
        if self.training:
            self.shift.copy_(rows[0].detach())
        return rows


class ClampingWeights(Headed):
    def seen(self, rows):
        with torch.no_grad():
            self.head.weight.clamp_(-rows.abs().max(), rows.abs().max())
        return rows


class Everywhere(Headed):
    total = torch.zeros(5)

    def seen(self, rows):
        if self.training:
            with torch.no_grad():
                Everywhere.total += 0.0 * rows[0]
        return rows


class Uncommon(torch.autograd.Function):
    """Declares how it is to be evaluated for several records at once: mixed."""

    @staticmethod
    def forward(values):
        return values.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, dims, values):
        return values / max(1.0, float(values.abs().max())), dims[0]


class OwnRule(Headed):
    def seen(self, rows):
        return Uncommon.apply(rows)


class Centred(Headed):
    def seen(self, rows):
        return rows - rows.mean(dim=0) if self.training else rows


class LookingUp(Headed):
    def seen(self, rows):
        return rows + self.shift[rows.abs().clamp(max=4.0).long()]


class Dividing(Headed):
    def seen(self, rows):
        return rows + (100 // (1000 * rows).long().clamp(min=-1)).clamp(0, 0)


class Masked(Headed):
    def seen(self, rows):
        changed = rows.clone()
        changed[rows < 0] = changed[rows < 0] * 2
        return changed


class Strided(Headed):
    def seen(self, rows):
        return rows.as_strided((1, 5), (5, 1)).expand(len(rows), 5) * 0.0 + rows


class OwnPlaces(Headed):
    """Positions of its own for the gradient of a pooling, which writes to them without a check."""

    def seen(self, rows):
        planes = rows.reshape(-1, 1, 1, 5)
        options = ([1, 1], [1, 1], [0, 0], [1, 1], False, planes.abs().long())
        return torch.ops.aten.max_pool2d_with_indices_backward(planes, planes, *options).reshape(-1, 5)


class OtherPlane(Headed):
    """The positions of a pooling, used for a smaller plane than it saw."""

    def seen(self, rows):
        planes = rows.reshape(-1, 1, 1, 5)
        _, places = torch.ops.aten.max_pool2d_with_indices(planes, [1, 1])
        given, small = planes[..., :2], planes[..., :2]
        options = ([1, 1], [1, 1], [0, 0], [1, 1], False, places[..., 3:])
        written = torch.ops.aten.max_pool2d_with_indices_backward(given, small, *options)
        return rows + torch.nn.functional.pad(written.reshape(-1, 2), (0, 3))


class ShorterTable(Headed):
    """Positions among five values in a table of four."""

    def seen(self, rows):
        places = rows.sort(dim=1).indices[:, :1]
        return rows + torch.zeros(len(rows), 4).scatter(1, places, 1.0).sum(dim=1, keepdim=True)


class Filling(Headed):
    """Fails where more values are above a thousand than there are to fill in."""

    def seen(self, rows):
        return rows.masked_scatter(rows > 1000.0, torch.zeros(2))


class Degree(Headed):
    """A polynomial of a degree that a record gives takes as long as the degree."""

    def seen(self, rows):
        return torch.special.legendre_polynomial_p(rows, rows.detach().abs())


class Wrapped(torch.Tensor):
    """A tensor whose operations are Python code of its own."""


def with_wrapped_buffer():
    model = Headed()
    model.shift = torch.zeros(5).as_subclass(Wrapped)
    return model


class CopiedWrapped(Headed):
    """A model that copies itself as one with tensors that have code of their own."""

    def __deepcopy__(self, memo):
        return with_wrapped_buffer()


@torch.library.custom_op("sfumato_tests::peep", mutates_args=())
def peep(rows: torch.Tensor) -> torch.Tensor:
    return rows.clone()


peep.register_fake(torch.empty_like)
peep.register_autograd(lambda ctx, gradient: gradient)


class OtherLibrary(Headed):
    def seen(self, rows):
        return peep(rows)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Branching(), "its code must not branch on values of a record"),
        (BranchingByItem(), "its code must not branch on values of a record"),
        (DividingByItem(), "operator _local_scalar_dense"),
        (RunningMean(), "writes to a buffer, a parameter or another tensor that it keeps"),
        (Keeping(), "writes to a buffer, a parameter or another tensor that it keeps"),
        (ClampingWeights(), "writes to a buffer, a parameter or another tensor that it keeps"),
        (Everywhere(), "its code must not branch on values of a record, turn them .* or keep them"),
        (OwnRule(), "cannot be evaluated on one record alone"),
        (LookingUp(), "operator index with whole numbers computed from a record"),
        (Dividing(), "operator div with whole numbers computed from a record"),
        (Masked(), "cannot be evaluated"),
        (Strided(), "operator as_strided"),
        (OwnPlaces(), "operator max_pool2d_with_indices_backward with whole numbers"),
        (OtherPlane(), "operator max_pool2d_with_indices_backward with whole numbers"),
        (ShorterTable(), "operator scatter with whole numbers"),
        (Filling(), "operator masked_scatter"),
        (Degree(), "operator special_legendre_polynomial_p"),
        (OtherLibrary(), "operator sfumato_tests.peep"),
        (nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3))), "writes to a buffer"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_programs_of_which_nothing_can_be_proven_are_refused(model, sentence):
    with pytest.raises(BadInput, match=sentence) as refused:
        RecordGradients(model, (5,), 3)
    assert len(str(refused.value)) < 450


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Branching(), "its code must not branch on values of a record"),
        (RunningMean(), "writes to a buffer, a parameter or another tensor that it keeps"),
        (Centred(), "depends on the other records of a batch"),
        (with_wrapped_buffer(), "holds a Wrapped"),
        (nn.Sequential(nn.LazyLinear(3)), "holds a UninitializedParameter"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
@pytest.mark.parametrize("options", [{}, {"noise": "correlated", "batch": 5}], ids=["samples", "turns"])
def test_models_that_mix_records_are_refused_before_training(model, sentence, options):
    told = []
    with pytest.raises(BadInput, match=sentence):
        fit_private(model, ROWS, KINDS, epsilon=20.0, report=lambda *stage: told.append(stage), **options)
    assert not told


def test_a_model_that_copies_itself_as_another_is_refused():
    with pytest.raises(BadInput, match="the model holds a Wrapped"):
        checked_model(CopiedWrapped(), (5,))


class Remembering(Headed):
    """Stores what it sees in an attribute, a list of its class and a parameter that it makes anew."""

    kept: ClassVar[list[torch.Tensor]] = []

    def seen(self, rows):
        self.last = rows.detach().clone()
        self.mean = nn.Parameter(rows[0].detach().clone(), requires_grad=False)
        Remembering.kept.append(rows)
        return rows


def test_nothing_but_the_trained_weights_changes_and_code_sees_no_record():
    given = Remembering()
    rows = ROWS + 100.0  # far from what anything is tried on
    fitted = fit_private(given, rows, KINDS, epsilon=20.0, steps=3, batch=50)
    fitted.predict(rows)
    assert set(vars(fitted.model)) == set(vars(given))
    changed = {
        name
        for name, value in fitted.model.state_dict().items()
        if not torch.equal(value, given.state_dict()[name])
    }
    assert changed == {"head.weight", "head.bias"}
    trained_on = [kept for kept in Remembering.kept if torch._is_functional_tensor(kept) or len(kept) == 1]
    assert trained_on  # code ran once on a record, and that had no values
    assert all("FakeTensor" in repr(kept) for kept in trained_on)


class Dominated(Headed):
    """Reads memory that nobody wrote to."""

    def seen(self, rows):
        return rows + torch.empty(5)


def test_memory_that_nobody_wrote_to_reads_as_zero():
    reading, plain = Dominated(), Headed()
    reading.load_state_dict(plain.state_dict())
    programs = [RecordGradients(model, (5,), 3) for model in (reading, plain)]
    for _ in range(20):
        torch.full((5,), 1e6)  # what may lie there
        found, sure = (program(*sample()) for program in programs)
        assert all(torch.equal(one, other) for one, other in zip(found, sure, strict=True))


def sample(shape=(5,)):
    return torch.from_numpy(np.random.default_rng(3).normal(size=(6, *shape)).astype(np.float32)), (
        torch.arange(6) % 3
    )


class Tied(Headed):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def seen(self, rows):
        return self.second(self.first(rows).tanh())


class Positions(Headed):
    """Adds something to each place of a record: a parameter that is used without a record."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(5, 1)

    def seen(self, rows):
        return rows + self.places(torch.arange(5)).squeeze(1)


class Largest(Headed):
    def seen(self, rows):
        return rows * rows.max(dim=1, keepdim=True).values


class Rectified(Headed):
    """Works in place, by a mask, with a number made in forward."""

    def seen(self, rows):
        rows.mul_(torch.tensor(2.0))
        return rows.masked_fill_(rows < 0, 0.5)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(1, 4), nn.Linear(4, 3)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, rows):
        return self.head(self.layer(self.inner(rows.unsqueeze(2))).mean(dim=1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.GRU(1, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, rows):
        return self.head(self.layer(rows.unsqueeze(2))[0][:, -1])


PICTURES = nn.Sequential(
    nn.ReLU(inplace=True),
    nn.Conv2d(1, 4, 3, padding=1),
    nn.GroupNorm(2, 4),
    nn.GELU(),
    nn.MaxPool2d(2),
    nn.Conv2d(4, 4, 3, stride=2, groups=2),
    nn.InstanceNorm2d(4, affine=True),
    nn.Upsample(scale_factor=2),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.LayerNorm(16),
    nn.utils.parametrizations.weight_norm(nn.Linear(16, 3)),
)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Linear(5, 3), (5,)),
        (Tied(), (5,)),
        (Positions(), (5,)),
        (Largest(), (5,)),
        (Rectified(), (5,)),
        (Attending(), (5,)),
        (Recurrent(), (5,)),
        (PICTURES, (1, 12, 12)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_gradients_are_those_of_a_backward_pass_over_one_record(model, shape):
    rows, labels = sample(shape)
    copied, gradients, classes = checked_model(model, shape)
    found = gradients(rows, labels)
    assert classes == 3
    for place in range(len(rows)):
        copied.zero_grad()
        cross_entropy(copied(rows[place : place + 1].clone()), labels[place : place + 1]).backward()
        for part, gradient in zip(gradients.parameters, found, strict=True):
            torch.testing.assert_close(gradient[place], part.grad, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_one_record_does_not_feel_the_others_to_the_last_bit():
    rows, labels = sample((1, 12, 12))
    _, gradients, _ = checked_model(PICTURES, (1, 12, 12))
    others = rows.clone()
    others[1:] = torch.tensor([1e30, -1e5, float("inf"), float("nan"), 0.0])[:, None, None, None]
    first, second = gradients(rows, labels), gradients(others, labels)
    assert all(torch.equal(one[0], other[0]) for one, other in zip(first, second, strict=True))


def test_dropout_is_drawn_for_each_record():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3, bias=False))
    _, gradients, _ = checked_model(model, (5,))
    (found,) = gradients(torch.ones(64, 5), torch.zeros(64, dtype=torch.int64))
    assert len({tuple(row) for row in (found[:, 0] != 0.0).int().tolist()}) > 8
    fitted = fit_private(model, ROWS, KINDS, epsilon=20.0, steps=3, randomness=Seeded(0))
    assert fitted.predict_proba(ROWS).shape == (200, 3)


def test_a_model_that_is_given_stays_as_it_was():
    given = Remembering()
    before = copy.deepcopy(given.state_dict())
    checked_model(given, (5,))
    assert "last" not in vars(given)
    assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())
