"""One bad request at every door: the same refusal, with its parameter in the language of the door."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import inspect
import json
import re

import numpy as np
import pytest

pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("grpc_reflection", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from grpc_service import Code, channel, keys, parts, refused, service, stub, ward

from sfumato import cli
from sfumato.errors import BadInput, spell
from sfumato.io import encode_picture
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.privacy import Unit
from sfumato.release import MediaMechanisms, plan
from sfumato.serve.rest.rest_app import make_app

BALL = {"epsilon": 1.0, "clip": 1.0}
BOX = {"epsilon": 1.0, "bounds": [0.0, 1.0]}
RANGE = {"epsilon": [1.0, 8.0], "clip": 1.0}
#: File, mechanism, its parameters, the array; and the parameter that is refused.
REQUESTS = [
    ("x.npz", "gaussian", {"epsilon": 1.0}, None, "clip"),
    ("x.npz", "gaussian", {"clip": 1.0}, None, "epsilon"),
    ("x.npz", "gaussian", {"epsilon": [1.0, 8.0], "clip": 1.0}, None, "epsilon"),
    ("x.npz", "gaussian", BALL | {"epsilon": -1.0}, None, "epsilon"),
    ("x.npz", "gaussian", BALL | {"delta": 2.0}, None, "delta"),
    ("x.npz", "gaussian", BALL | {"clip": 0.0}, None, "clip"),
    ("x.npz", "gaussian", BALL | BOX, None, "clip"),
    ("x.npz", "gaussian", BOX | {"bounds": [5.0, 1.0]}, None, "bounds"),
    ("x.npz", "gaussian", BALL | {"neighbours": "friends"}, None, "neighbours"),
    ("x.npz", "gaussian", BALL | {"levels": 4}, None, "levels"),
    ("x.npz", "gaussian", BALL | {"epsilon": 1e10}, None, "clip"),
    ("x.npz", "laplace", BALL | {"epsilon": 1e-100}, None, "epsilon"),
    ("x.npz", "laplace", BALL | {"clip": -1.0}, None, "clip"),
    ("x.npz", "trust-adaptive", RANGE | {"epsilon": 1.0}, None, "epsilon"),
    ("x.npz", "trust-adaptive", RANGE | {"epsilon": [8.0, 1.0]}, None, "epsilon"),
    ("x.npz", "tensor-ldp", BOX | {"noise": "pink"}, None, "noise"),
    ("x.npz", "tensor-ldp", BOX | {"retain": "both"}, None, "retain"),
    ("x.npz", "tensor-ldp", BOX | {"outside": "wrap"}, None, "outside"),
    ("x.npz", "tensor-ldp", BOX | {"unit": "word"}, None, "unit"),
    ("x.npz", "grid-tensor-ldp", BOX | {"levels": 1}, None, "levels"),
    ("x.npz", "hybrid", BOX | {"coordinates": 0}, None, "coordinates"),
    ("x.npz", "priv-unit", BALL | {"epsilon": 1e-9}, None, "epsilon"),
    ("x.npz", "binary-encoding", {"flip": 0.7, "bounds": [0.0, 1.0]}, None, "flip"),
    ("x.npz", "binary-encoding", {"flip": 0.1, "bits": 99, "bounds": [0.0, 1.0]}, None, "bits"),
    ("x.npz", "randomised-response", {"epsilon": 1.0, "categories": 1}, None, "categories"),
    ("x.npz", "random-projection", {"components": 0}, None, "components"),
    ("x.npz", "gausian", BALL, None, "mechanism"),
    ("x.npz", "gaussian", BALL, "Y", "array"),
    ("two.npz", "gaussian", BALL, None, "array"),
    ("x.npy", "gaussian", BALL, "X", "array"),
    ("x.csv", "gaussian", {"epsilon": 1.0}, None, "schema"),
    ("x.png", "plane-means", {"epsilon": 0.0}, None, "epsilon"),
    ("x.png", "plane-means", {"epsilon": 1.0, "unit": "planet"}, None, "unit"),
    ("x.png", "plane-means", {"epsilon": 1.0, "restore": "magic"}, None, "restore"),
    ("x.png", "pixelate", {"block": 0}, None, "block"),
    ("x.png", "blur", {"sigma": 1e9}, None, "sigma"),
]
OPTION = re.compile(r"(?<![\w-])--[a-z]")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    values = np.random.default_rng(0).uniform(size=(6, 3))
    np.savez(folder / "x.npz", X=values)
    np.savez(folder / "two.npz", X=values, Z=values)
    np.save(folder / "x.npy", values)
    (folder / "x.csv").write_text("age\n30\n40\n")
    (folder / "x.png").write_bytes(encode_picture(np.full((16, 16, 3), 128, np.uint8), ".png"))
    return folder


def in_python(folder, file, mechanism, parameters, array):
    """The refusal that a caller of the library meets."""
    given = dict(parameters)
    if "epsilon" in given and not isinstance(given["epsilon"], list):
        given["epsilon"] = [given["epsilon"]]
    if "bounds" in given:
        given["bounds"] = tuple(given["bounds"])
    media = file.endswith(".png")

    def planned():
        if media and "unit" in given:
            given["unit"] = Unit.parse(given["unit"])
        made = make_mechanism(mechanism, given, bounded=media or file.endswith(".csv"))
        plan(folder / file, MediaMechanisms(made) if media else made, array=array)

    with pytest.raises(BadInput) as raised:
        planned()
    return raised.value


def typed(folder, file, mechanism, parameters, array, capsys):
    """What the command line answers."""
    words = ["plan", str(folder / file), "--mechanism", mechanism]
    for name, value in parameters.items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{name.replace('_', '-')}", *map(str, values)]
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, *(() if array is None else ("--array", array))])
    assert ended.value.code == 2
    return capsys.readouterr().err.removeprefix("sfumato: ").rstrip("\n")


def in_the_service(folder, file, mechanism, parameters, array, rest, stub, keys):
    """What REST and gRPC answer, which is one sentence."""
    body = (folder / file).read_bytes()
    words = {} if array is None else {"array": array}
    description = {"mechanism": mechanism, "parameters": parameters} | words
    answer = rest.post(
        "/v1/datasets/ward/plan",
        params={"name": file, "asked": json.dumps(description)},
        headers=dict(keys["owner"]),
        content=body,
    )
    assert (answer.status_code, answer.json()["type"]) == (400, "bad-input")
    call = parts(body, name=file, mechanism=mechanism, parameters=parameters, **words)
    said = refused(Code.INVALID_ARGUMENT, "bad-input", stub.Plan, call, metadata=keys["owner"])
    assert said == answer.json()["detail"]
    return said


@pytest.mark.parametrize(("file", "mechanism", "parameters", "array", "refused_for"), REQUESTS)
def test_a_refusal_carries_a_parameter_of_what_was_called(
    files, file, mechanism, parameters, array, refused_for
):
    error = in_python(files, file, mechanism, parameters, array)
    assert error.parameter == refused_for
    assert not OPTION.search(str(error))
    if mechanism not in MECHANISMS:
        assert refused_for == "mechanism"
    elif "it takes" in str(error):
        assert str(error).endswith("`levels` is for grid-tensor-ldp.")
    else:
        called = {**inspect.signature(plan).parameters, **inspect.signature(MECHANISMS[mechanism]).parameters}
        assert refused_for in called


def test_each_door_spells_the_parameter_in_its_own_language(files, service, stub, keys, ward, capsys):
    taken = re.compile(r"it takes .*?;")  # of the parameters, each door lists those that it has
    with TestClient(make_app(service)) as rest:
        for *request, parameter in REQUESTS:
            error = in_python(files, *request)
            told = typed(files, *request, capsys)
            said = in_the_service(files, *request, rest, stub, keys)
            for sentence, door in ((told, "command line"), (said, "service")):
                assert taken.sub("", sentence) == taken.sub("", spell(error, door))
            assert f"--{parameter}" in told or parameter == "mechanism"  # whose unknown value says enough
            assert "`" not in told
            assert not OPTION.search(said)
