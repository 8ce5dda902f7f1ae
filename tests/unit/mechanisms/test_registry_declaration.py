"""Wire names: a renamed class or parameter, and an added one, change neither keyed noise nor digests."""

import json
from typing import Annotated

import numpy as np
import pytest

import sfumato as sf
from sfumato.mechanisms.registry import Parameter, parameters_of

X = np.random.default_rng(3).uniform(-0.5, 0.5, (5, 4))


class Toy(sf.Gaussian):
    """A mechanism as it was when the first releases were made."""

    def __init__(self, epsilon=1.0, level=0.5, *, randomness=None):
        super().__init__(epsilon, 1e-6, clip=1.0, randomness=randomness)
        self.level = level


class Renamed(sf.Gaussian, wire="Toy"):
    """The same under another name, with a renamed parameter."""

    def __init__(
        self, epsilon=1.0, grade: Annotated[float, Parameter(wire="level")] = 0.5, *, randomness=None
    ):
        super().__init__(epsilon, 1e-6, clip=1.0, randomness=randomness)
        self.grade = grade


class Extended(sf.Gaussian, wire="Toy"):
    """The same with a parameter that was added."""

    def __init__(
        self,
        epsilon=1.0,
        level=0.5,
        extra: Annotated[list[int], Parameter(added=True)] = (1, 2),
        *,
        randomness=None,
    ):
        super().__init__(epsilon, 1e-6, clip=1.0, randomness=randomness)
        self.level, self.extra = level, extra


class Careless(sf.Gaussian, wire="Toy"):
    """The same with an added parameter that is not declared as one."""

    def __init__(self, epsilon=1.0, level=0.5, extra=(1, 2), *, randomness=None):
        super().__init__(epsilon, 1e-6, clip=1.0, randomness=randomness)
        self.level, self.extra = level, extra


def keyed():
    return sf.Keyed(b"k" * 32, dataset="d", version="1", release="r")


def drawn(mechanism):
    """The bytes of a keyed release, alone and inside another mechanism, and the digests of both."""
    nested = sf.RandomProjection(3, mechanism, 0)
    terms = [json.dumps(each.statement(4).terms, sort_keys=True) for each in (mechanism, nested)]
    return [each.release(X).value.tobytes() for each in (mechanism, nested)], terms


def test_a_renamed_class_and_parameter_draw_and_commit_to_the_same():
    before, after = drawn(Toy(1.0, 0.25, randomness=keyed())), drawn(Renamed(1.0, 0.25, randomness=keyed()))
    assert before == after
    assert drawn(Renamed(1.0, 0.75, randomness=keyed()))[1] != before[1]
    seeded = [kind(1.0, 0.25, randomness=sf.Seeded(1)).release(X).value for kind in (Toy, Renamed)]
    assert np.array_equal(*seeded)
    assert "grade" in Renamed().parameters()  # people are told the name that they type
    assert Renamed().statement().mechanism == "Renamed"


def test_an_added_parameter_enters_only_where_it_is_not_at_its_default():
    before = drawn(Toy(1.0, 0.25, randomness=keyed()))
    assert drawn(Extended(1.0, 0.25, randomness=keyed())) == before
    assert drawn(Extended(1.0, 0.25, [1, 2], randomness=keyed())) == before
    other = drawn(Extended(1.0, 0.25, [1, 3], randomness=keyed()))
    assert [a != b for a, b in zip(other[0] + other[1], before[0] + before[1], strict=True)] == [True] * 4
    assert drawn(Careless(1.0, 0.25, randomness=keyed())) != before


def test_a_subclass_does_not_take_the_wire_name_of_its_base():
    class Child(Renamed):
        pass

    assert (Renamed.wire, Child.wire) == ("Toy", "Child")


def test_two_parameters_never_share_a_wire_name():
    class Wrong(sf.Gaussian):
        def __init__(self, epsilon: Annotated[float, Parameter(wire="delta")] = 1.0, delta=1e-6):
            super().__init__(epsilon, delta)

    with pytest.raises(TypeError, match="two parameters of Wrong have one wire name"):
        parameters_of(Wrong)


def test_another_version_of_the_package_draws_the_same(monkeypatch):
    before = drawn(Toy(randomness=keyed()))
    monkeypatch.setattr(sf, "__version__", "9.9.9")
    assert drawn(Toy(randomness=keyed())) == before
