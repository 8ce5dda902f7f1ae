"""Mechanisms by name: every one is declared, made and refused by what its class says of itself."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import MECHANISMS, make_mechanism, mechanism_names
from sfumato.mechanisms.index import PLACES
from sfumato.mechanisms.registry import parameters_of

PYTHON_ALONE = [
    *("ClipNoise", "FrameNoise", "HessianClipped", "IndependentDirectional", "LayerAdaptive"),
    *("LocalitySensitiveHash", "MatrixVariateGaussian", "Projection", "ReverseManifold", "SymmetricTensors"),
]
X = np.random.default_rng(1).uniform(-0.5, 0.5, (6, 3))


@pytest.mark.parametrize("name", mechanism_names())
def test_every_parameter_says_in_one_line_what_it_is(name):
    kind = MECHANISMS[name]
    for parameter in parameters_of(kind).values():
        assert parameter.help.endswith("."), (name, parameter.name)
        assert "\n" not in parameter.help, (name, parameter.name)
        assert parameter.type is not None
        if parameter.choices and parameter.default is not None:
            assert parameter.default in parameter.choices
        assert parameter.instead_of in ("", *parameters_of(kind))


@pytest.mark.parametrize("name", mechanism_names())
def test_the_index_says_what_the_class_says(name):
    module, called, kinds, default_for = PLACES[name]
    kind = MECHANISMS[name]
    assert (kind.__module__, kind.__name__, kind.kinds) == (module, called, kinds)
    assert vars(kind).get("default_for", ()) == default_for
    assert getattr(sf, called) is kind
    assert bool({"picture", "sound"} & {*kinds}) is kind.of_media


def test_every_kind_of_data_has_one_default_mechanism():
    kinds = [kind for place in PLACES.values() for kind in place.default_for]
    assert sorted(kinds) == ["array", "picture", "sound", "table", "video"]


def test_what_python_alone_has_stands_in_the_package_and_not_in_the_index():
    for name in PYTHON_ALONE:
        assert getattr(sf, name).kinds == ()
    assert not {place[1] for place in PLACES.values()} & {*PYTHON_ALONE}
    with pytest.raises(BadInput, match="there is no mechanism 'frame-noise'"):
        sf.mechanism("frame-noise")


@pytest.mark.parametrize("name", mechanism_names())
def test_words_that_are_declared_are_those_that_are_accepted(name):
    """Every declared word is taken, and another one is refused by the mechanism itself."""
    declared = parameters_of(MECHANISMS[name])
    shape = {"sound": (800,), "picture": (32, 32)}.get(PLACES[name][2][0], (3,))
    usual = {
        "epsilon": (1.0, 2.0) if declared.get("distrust") else 1.0,
        "delta": 1e-6,
        **({"clip": 1.0} if "clip" in declared else {"bounds": (0.0, 1.0)}),
        "rate": 8000,
        "shape": shape,
        "declared": np.ones((2, 2)),
    }
    usual = {key: value for key, value in usual.items() if key in declared}

    def use(**given):
        made = sf.mechanism(name, **usual | given)
        made.statement(int(np.prod(shape)))
        made.release(np.full((2, *shape), 0.5))

    for parameter in declared.values():
        for word in parameter.choices:
            found = {"declared": None, "detectors": "saliency", "tile": 16} if word == "private" else {}
            use(**{parameter.name: word} | found)
        if parameter.choices:
            with pytest.raises(BadInput) as refused:
                use(**{parameter.name: "nonsense"})
            assert refused.value.parameter == parameter.name


def test_python_makes_a_mechanism_by_name():
    made = sf.mechanism("gaussian", epsilon=1.0, clip=1.0, randomness=sf.Seeded(3))
    assert isinstance(made, sf.Gaussian)
    same = sf.Gaussian(1.0, clip=1.0, randomness=sf.Seeded(3))
    assert np.array_equal(made.release(X).value, same.release(X).value)
    assert sf.mechanism("trust-adaptive", epsilon=(1.0, 8.0), clip=1.0).epsilon == (1.0, 8.0)
    assert list(sf.mechanism("personalised", epsilon=[1.0, 2.0], clip=1.0).epsilon) == [1.0, 2.0]
    assert sf.mechanism("binary-encoding", epsilon=1.0).flip is None
    assert sf.mechanism("binary-encoding", flip=0.2).flip == 0.2
    assert sf.mechanism("laplace", epsilon=1.0).clip is None  # the bounds of a table stand in its schema


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("gausian", {}, "there is no mechanism 'gausian'; did you mean gaussian?"),
        ("Gaussian", {}, "there is no mechanism 'Gaussian'; did you mean gaussian?"),
        ("gaussian", {"clip": 1.0}, "gaussian needs a privacy budget (`epsilon=1`)."),
        ("personalised", {}, "personalised needs a privacy budget (`epsilon=1`) or `epsilon_file`."),
        ("binary-encoding", {}, "binary-encoding needs a privacy budget (`epsilon=1`) or `flip`."),
        ("trust-adaptive", {}, "trust-adaptive needs a privacy budget (`epsilon=(1, 8)`)."),
        (
            "trust-adaptive",
            {"epsilon": (1, 8), "trust": 0.4},
            "trust-adaptive has no `trust`; give `distrust`, 0 for the most trusted reader.",
        ),
        (
            "gaussian",
            {"epsilon": 1.0, "levels": 3},
            "gaussian has no `levels`; it takes `epsilon`, `delta`, `clip`, `bounds`, `neighbours`, "
            "`randomness`; `levels` is for grid-tensor-ldp.",
        ),
        (
            "priv-unit",
            {"epsilon_file": X},
            "priv-unit has no `epsilon_file`; it takes `epsilon`, `clip`, `randomness`; `epsilon_file` is "
            "for personalised.",
        ),
    ],
)
def test_python_is_refused_what_a_mechanism_does_not_take_or_lacks(name, given, sentence):
    with pytest.raises(BadInput) as refused:
        sf.mechanism(name, **given)
    assert str(refused.value) == sentence
    assert refused.value.parameter in ("mechanism", "epsilon", "trust", "levels", "epsilon_file")


@pytest.mark.parametrize("name", mechanism_names("array"))
def test_doors_need_a_bound_where_one_is_declared(name):
    kind = MECHANISMS[name]
    bounds = [one.name for one in parameters_of(kind).values() if one.bound]
    given = (
        {"epsilon": [1.0] * (2 if name == "trust-adaptive" else 1)}
        if "epsilon" in parameters_of(kind)
        else {}
    )
    if not bounds:
        assert make_mechanism(name, given)
        return
    with pytest.raises(BadInput, match="a bound on the records") as refused:
        make_mechanism(name, given)
    assert refused.value.parameter == bounds[0]
    assert make_mechanism(name, given, bounded=True)


def test_one_module_alone_is_imported():
    script = (
        "import sys, json, sfumato as sf\n"
        "sf.mechanism('laplace', epsilon=1.0, clip=1.0)\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('sfumato.')]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {*json.loads(done.stdout)}
    others = {place[0] for place in PLACES.values()} - {
        "sfumato.mechanisms.additive",
    }
    assert not loaded & others
    assert not any(name.startswith("sfumato.media") for name in loaded)


def test_signatures_are_those_of_the_classes():
    assert list(parameters_of(sf.Gaussian)) == list(inspect.signature(sf.Gaussian).parameters)
    bounds = parameters_of(sf.Gaussian)["bounds"]
    assert (bounds.arity, bounds.wire, bounds.default) == (2, "bounds", None)
    assert parameters_of(sf.TrustAdaptive)["distrust"].wire == "trust"
    assert parameters_of(sf.Gaussian)["randomness"].doors == ("python",)
