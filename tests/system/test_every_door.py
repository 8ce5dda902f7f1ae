"""The same requests through Python, the command line, REST, gRPC and the form of the pages: one answer."""

import asyncio
import contextlib
import functools
import html
import inspect
import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra media is not installed")
pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import grpc
import small_media
import typer.main
from fastapi.testclient import TestClient

from sfumato import cli
from sfumato.errors import BadInput, spell
from sfumato.mechanisms import MECHANISMS, parameters_of
from sfumato.release import ReleaseRequest, plan
from sfumato.serve import Service, Settings
from sfumato.serve.grpc import SfumatoStub, make_server
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.rest import make_app

COLUMNS = {"columns": {"age": {"kind": "numeric", "bounds": [0, 120]}}}
BOXES = {"x.png": {"boxes": [{"category": "person", "bbox_xywh": [2, 2, 6, 6]}]}}
BAD_BOXES = {"x.png": {"boxes": [{"category": "person", "bbox_xywh": [2, 2]}]}}
UNITS = (
    *("region:16", "pixels(16)", "item", "window:20", "channel", "clip", "frame", "record", "component"),
    *("region:0", "planet"),
)
# A value that somebody may give each parameter, and one that is refused.
VALUES = {
    "epsilon": (4.0, 0.0),
    "epsilon_file": ([1.0] * 6, [1.0, -1.0]),
    "delta": (1e-6, 2.0),
    "neighbours": ("zero-out", "friends"),
    "clip": (1.0, -1.0),
    "bounds": ([0.0, 1.0], [1.0]),
    "distrust": (0.4, 3.0),
    "calibration": ("paper", "magic"),
    "categories": (3, 1),
    "bits": (8, 99),
    "flip": (0.1, 0.7),
    "components": (2, 0),
    "scale": (0.5, -1.0),
    "unit": ("item", "planet"),
    "sound_unit": ("clip", "planet"),
    "noise": ("laplace", "pink"),
    "retain": ("proof", "both"),
    "weights": ("grey", "saliency"),
    "levels": (8, 1),
    "outside": ("clip", "wrap"),
    "coordinates": (1, 0),
    "map": ("private", BAD_BOXES),
    "block": (4, 0),
    "restore": ("none", "magic"),
    "sigma": (2.0, 1e9),
    "strategy": ("uniform", "luck"),
}
#: What a request says beside the parameters of its mechanism.
OPTIONS = {
    "alpha": (2.0, -1.0),
    "bounds_from_data": (True,),
    "disjoint": (True,),
    "public_names": (True,),
}
FILES = ("x.npz", "t.npz", "x.csv", "x.png", "x.wav", "x.mp4")
#: What budgets count, by dataset.
BUDGETS = {
    f"of-{unit.partition('(')[0]}": (unit, "replace")
    for unit in (
        *("record", "component", "tensor", "region(16)", "pixels(16)", "window(20)", "channel", "item"),
        *("clip", "frame"),
    )
} | {"zeroed": ("record", "zero-out")}


def usual(name, file):
    """Parameters with which a mechanism releases a file."""
    takes = PARAMETERS_OF[name]
    given = {"epsilon": [1.0, 8.0] if name == "trust-adaptive" else 1.0} if "epsilon" in takes else {}
    if file in ("x.npz", "t.npz") and name != "binary-encoding":
        given |= {"clip": 1.0} if "clip" in takes else {"bounds": [-1.0, 1.0]} if "bounds" in takes else {}
    return given | ({"map": "private"} if name == "content-adaptive" else {})


def requests():
    """Every mechanism for every kind of file, and every default mechanism with every parameter."""
    for name in MECHANISMS:
        yield from ((file, name, usual(name, file)) for file in FILES)
        fitting = "x.wav" if name in ("band-noise", "mel-laplace") else "x.png"
        file = fitting if MECHANISMS[name].of_media else "x.npz"
        for parameter, (_, bad) in VALUES.items():
            if parameter in PARAMETERS_OF[name] or parameter == "sound_unit":
                yield file, name, usual(name, file) | {parameter: bad}
    for file in FILES:
        name = {"x.png": "plane-means", "x.mp4": "plane-means", "x.wav": "band-noise"}.get(file, "gaussian")
        for parameter, values in VALUES.items():
            for value in values:
                yield file, None, usual(name, file) | {parameter: value}
        for unit in UNITS:
            yield file, None, usual(name, file) | {"unit": unit}
        for option, values in OPTIONS.items():
            for value in values:
                yield file, None, usual(name, file) | {option: value}
        yield file, None, {"epsilon": 1.0, "bounds_from_data": True}
        yield file, None, {}
        yield file, "gausian", {"epsilon": 1.0}
    for unit in ("region:16", "window:20", "item"):
        yield "x.mp4", None, {"epsilon": 4.0, "unit": unit, "sound_unit": "clip"}
    for name in (None, "content-adaptive", "mask", "plane-means"):
        for map_ in ("private", "unaccounted", BOXES, BAD_BOXES, {}):
            given = {"map": map_} | ({} if name == "mask" else {"epsilon": 4.0})
            yield "x.png", name, given
    yield "x.npz", "personalised", {"clip": 1.0, "epsilon": [1.0, 2.0]}
    for each in VALUES["epsilon_file"]:
        yield "x.npz", "personalised", {"clip": 1.0, "epsilon_file": each}
    yield "x.npz", "trust-adaptive", {"clip": 1.0, "epsilon": [8.0, 1.0]}


PARAMETERS_OF = {name: list(inspect.signature(kind).parameters) for name, kind in MECHANISMS.items()}
REQUESTS = list(requests())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One small file of each kind."""
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(0)
    np.savez(folder / "x.npz", X=random.uniform(0, 0.5, size=(6, 3)))
    np.savez(folder / "t.npz", X=random.uniform(0, 0.5, size=(2, 3, 3)))
    (folder / "x.csv").write_text("age\n30\n40\n")
    small_media.png(folder / "x.png", small_media.photograph(10, 12))
    small_media.sound(folder / "x.wav", small_media.tone(0.05))
    small_media.video(folder / "x.mp4", frames=2, sides=(16, 16))
    return folder


def divided(given):
    """The parameters of the mechanism, and the options of the request."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    return {name: value for name, value in given.items() if name not in OPTIONS}, options


def in_python(folder, file, mechanism, parameters):
    """What the library answers: a plan, or a refusal."""
    given, options = divided(parameters)
    try:
        request = ReleaseRequest(mechanism, given, COLUMNS if file == "x.csv" else None, **options)
        return plan(folder / file, request)
    except BadInput as error:
        return error


def typed(folder, file, mechanism, parameters):
    """The words of a command, whose files stand in ``folder``."""
    words = ["plan", str(folder / file), "--json", *(() if mechanism is None else ("--mechanism", mechanism))]
    if file == "x.csv":
        words += ["--schema", str(_written(folder, COLUMNS))]
    for name, value in parameters.items():
        told = value
        if isinstance(value, dict):
            told = _written(folder, value)
        if name == "epsilon_file":
            told = folder / f"each{len(value)}.npy"
            np.save(told, value)
        values = told if isinstance(told, list) else [] if told is True else [told]
        words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return words


def _written(folder, document):
    names = [json.dumps(one) for one in (COLUMNS, BOXES, BAD_BOXES, {})]
    file = folder / f"document{names.index(json.dumps(document))}.json"
    file.write_text(json.dumps(document))
    return file


def on_the_command_line(words):
    """What a command prints, as JSON, and its exit code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        cli.main(words)
    return json.loads(out.getvalue()), ended.value.code


class Served:
    """A service with a budget of every unit, and how to ask it for plans by each of its doors."""

    def __init__(self, folder, stack):
        self.service = stack.enter_context(contextlib.closing(Service(Settings(folder / "service"))))
        tenant = self.service.registry.create_tenant("clinic")
        token = self.service.registry.create_key(tenant.id, name="owner", role="owner")[1]
        owner = self.service.registry.authenticate(token)
        for name, (unit, neighbours) in BUDGETS.items():
            words = {"epsilon": 1e6, "delta": 0.1, "unit": unit, "neighbours": neighbours}
            self.service.open_budget(owner, name, **words)
        app = make_app(self.service)
        self.rest = stack.enter_context(TestClient(app, headers={"Authorization": f"Bearer {token}"}))
        self.browser = stack.enter_context(TestClient(app, follow_redirects=False))
        self.metadata = (("authorization", f"Bearer {token}"),)
        port = stack.enter_context(_listening(self.service))
        self.stub = SfumatoStub(stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}")))
        self.browser.post("/ui/sign-in", data={"key": token, "to": "", "proof": self._proof("/ui/sign-in")})

    def _proof(self, page):
        return re.findall(r'name="proof" value="([0-9a-f]{64})"', self.browser.get(page).text)[0]

    def by_rest(self, dataset, file, mechanism, parameters, body):
        """The answer of REST: a status, and a plan or a refusal."""
        given, options = divided(parameters)
        asked = {"mechanism": mechanism, "parameters": given} | options
        asked |= COLUMNS if file == "x.csv" else {}
        answer = self.rest.post(
            f"/v1/datasets/{dataset}/plan", params={"name": file, "asked": json.dumps(asked)}, content=body
        )
        return answer.status_code, answer.json()

    def by_grpc(self, dataset, file, mechanism, parameters, body):
        """The answer of gRPC: a plan or a refusal."""
        given, options = divided(parameters)
        described = pb.Description(
            parameters={name: _parameter(value) for name, value in given.items()},
            **options,
            **({} if mechanism is None else {"mechanism": mechanism}),
            **({"columns_json": json.dumps(COLUMNS["columns"])} if file == "x.csv" else {}),
        )
        parts = [
            pb.FilePart(file=pb.AskedFile(dataset=dataset, name=file, asked=described)),
            pb.FilePart(chunk=body),
        ]
        call = self.stub.Plan.future(iter(parts), metadata=self.metadata)
        if call.code() is grpc.StatusCode.OK:
            return json.loads(call.result().json)
        assert call.code() is grpc.StatusCode.INVALID_ARGUMENT, call.details()
        return call.details()

    def by_form(self, dataset, file, mechanism, parameters, body):
        """The page that answers the form: its status, and its text without marks."""
        typed = {name: str(value) for name, value in parameters.items() if not isinstance(value, list)}
        typed |= {name: "yes" for name, value in parameters.items() if value is True}
        if isinstance(parameters.get("epsilon"), list):
            typed["epsilon"], typed["epsilon_max"] = map(str, parameters["epsilon"])
        if "bounds" in parameters:
            typed["low"], typed["high"] = map(str, parameters["bounds"])
        if file == "x.csv":
            typed["columns"] = json.dumps(COLUMNS["columns"])
        typed |= {"mechanism": mechanism or "", "proof": self.proof}
        path = f"/ui/datasets/{dataset}/plan"
        answer = self.browser.post(path, data=typed, files={"file": (file, body)})
        return answer.status_code, html.unescape(re.sub(r"<[^>]*>", "", answer.text))

    @property
    def proof(self):
        """What forms of this session bring."""
        if not hasattr(self, "_kept"):
            self._kept = self._proof("/ui/check")
        return self._kept


def _parameter(value):
    if isinstance(value, dict):
        return pb.Parameter(json=json.dumps(value))
    if isinstance(value, list):
        return pb.Parameter(numbers=pb.Numbers(numbers=value))
    return pb.Parameter(**{{int: "whole", float: "number", str: "word"}[type(value)]: value})


def _fits_a_form(parameters):
    """Whether the form has a field for every parameter, and one of its values for each."""
    fields = {"epsilon", "distrust", "delta", "clip", "bounds", "unit", *OPTIONS}
    pair = [parameters[name] for name in ("bounds",) if name in parameters]
    return set(parameters) <= fields and all(len(one) == 2 for one in pair)


@contextlib.contextmanager
def _listening(service):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def started():
        server = make_server(service, "127.0.0.1:0")
        await server.start()
        return server

    try:
        server = there(started())
        yield server.port
        there(server.stop(1.0))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Served(tmp_path_factory.mktemp("served"), stack)


@pytest.fixture(autouse=True)
def fresh_home(tmp_path, monkeypatch):
    """A home of this test's own; the tree of commands is built once, which takes longer than most plans."""
    monkeypatch.setenv("SFUMATO_HOME", str(tmp_path))
    monkeypatch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))


def _paying(statement):
    """The dataset whose budget pays for a release with ``statement``; any where nothing is proven."""
    stated = [(str(part.unit), part.neighbours) for part in (statement.proven, *statement.also_proven)]
    return next((name for name, counted in BUDGETS.items() if counted in stated), "of-record")


def _named(sentence):
    """``sentence`` with the parameter in place of the file that the command line read it from."""
    return re.sub(r"document[123]\.json", "--map", sentence)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", FILES)
def test_every_door_gives_the_same_answer(files, served, file):
    body, planned, refused = (files / file).read_bytes(), 0, 0
    for _, mechanism, parameters in [one for one in REQUESTS if one[0] == file]:
        request = (file, mechanism, parameters)
        expected = in_python(files, *request)
        printed, code = on_the_command_line(typed(files, *request))
        if isinstance(expected, BadInput):
            refused += 1
            said = spell(expected, "service")
            assert (code, _named(printed["error"])) == (2, spell(expected, "command line")), request
            status, answer = served.by_rest("of-record", *request, body)
            assert (status, answer["detail"]) == (400, said), request
            assert served.by_grpc("of-record", *request, body) == said, request
            if _fits_a_form(parameters):
                status, page = served.by_form("of-record", *request, body)
                assert status == 400, request
                assert said.rstrip(".?")[1:] in page, request
            continue
        planned += 1
        statement = expected.statement.to_dict()
        assert (code, printed["statement"]) == (0, statement), request
        dataset = _paying(expected.statement)
        status, answer = served.by_rest(dataset, *request, body)
        over_grpc = served.by_grpc(dataset, *request, body)
        if expected.statement.proven.proves_nothing:
            # What no budget can pay for is no release of the service.
            assert (status, over_grpc) == (400, answer["detail"]), request
            assert "nothing" in over_grpc, request
            continue
        assert (status, answer.get("statement")) == (200, statement), (request, answer)
        assert over_grpc["statement"] == statement, request
        if _fits_a_form(parameters):
            status, page = served.by_form(dataset, *request, body)
            assert status == 200, (request, page)
            assert mechanism is None or statement["mechanism"] in page, request
    assert planned
    assert refused > 20


def test_there_are_a_few_hundred_requests_of_every_mechanism_and_parameter():
    assert 300 <= len(REQUESTS) <= 900
    assert {name for _, name, _ in REQUESTS} >= set(MECHANISMS)
    given = {name for _, _, parameters in REQUESTS for name in parameters}
    assert given == set(VALUES) | set(OPTIONS)


def test_a_parameter_of_python_alone_is_refused_by_every_other_door(files, served):
    """What mechanisms declare for no door has no option, no field, and no place in a request."""
    form, tried = served.browser.get("/ui/datasets/of-record/release").text, 0
    assert 'name="parameter-block"' in form
    declared = [one for kind in MECHANISMS.values() for one in parameters_of(kind).values()]
    offered = {one.name for one in declared if "service" in one.doors}
    for mechanism, kind in MECHANISMS.items():
        of_media = "x.wav" if mechanism in ("band-noise", "mel-laplace") else "x.png"
        file = of_media if kind.of_media else "x.npz"
        body = (files / file).read_bytes()
        for name, parameter in parameters_of(kind).items():
            if set(parameter.doors) != {"python"}:
                continue
            tried += 1
            given = usual(mechanism, file) | {name: 3}
            expected = in_python(files, file, mechanism, given)
            assert "no part of a request" in str(expected), (mechanism, name)
            said = spell(expected, "service")
            status, answer = served.by_rest("of-record", file, mechanism, given, body)
            assert (status, answer["detail"]) == (400, said), (mechanism, name)
            assert served.by_grpc("of-record", file, mechanism, given, body) == said, (mechanism, name)
            answer, code = on_the_command_line(typed(files, file, mechanism, given))
            assert (code, f"--{name}" in answer["error"]) == (2, True), (mechanism, name)
            assert name in offered or f'name="parameter-{name}"' not in form, (mechanism, name)
    assert tried > 10


def test_ten_requests_are_answered_the_same_by_a_process_of_their_own(files, tmp_path):
    chosen = REQUESTS[:: len(REQUESTS) // 10][:10]
    executable = Path(sys.executable).with_name("sfumato")
    for request in chosen:
        expected = in_python(files, *request)
        ran = subprocess.run(
            [executable, *typed(files, *request)],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | {"SFUMATO_HOME": str(tmp_path)},
        )
        printed = json.loads(ran.stdout)
        if isinstance(expected, BadInput):
            assert (ran.returncode, _named(printed["error"])) == (2, spell(expected, "command line")), request
        else:
            assert (ran.returncode, printed["statement"]) == (0, expected.statement.to_dict()), request


def test_nothing_in_a_request_is_read_as_the_name_of_a_file(files, served):
    """Not a map, not weights, not an ε for each record."""
    boxes, each = str(_written(files, BOXES)), str(files / "each.npy")
    np.save(each, np.ones(6))
    for file, mechanism, parameters in (
        ("x.png", None, {"epsilon": 4.0, "map": boxes}),
        (
            "t.npz",
            "weighted-tensor-ldp",
            {"epsilon": 1.0, "bounds": [0.0, 1.0], "weights": each},
        ),
        ("x.npz", "personalised", {"clip": 1.0, "epsilon_file": each}),
    ):
        status, answer = served.by_rest("of-record", file, mechanism, parameters, (files / file).read_bytes())
        assert (status, answer["type"]) == (400, "bad-input"), answer


def test_a_request_is_the_same_after_it_was_written_and_read():
    for _, mechanism, parameters in REQUESTS:
        try:
            request = ReleaseRequest(mechanism, parameters)
        except BadInput:
            continue
        read = ReleaseRequest.from_dict(json.loads(json.dumps(request.to_dict())))
        assert read.to_dict() == request.to_dict()


def test_a_digest_knows_what_is_wanted_and_not_where_or_how():
    one = ReleaseRequest("gaussian", {"epsilon": 1, "unit": "region:16"}, source="/a/x.npz", engine="ray")
    other = ReleaseRequest("gaussian", {"unit": "region(16)", "epsilon": [1.0]}, source="s3://b/x.npz")
    assert one.digest() == other.digest()
    assert one.digest() != ReleaseRequest("gaussian", {"epsilon": 2, "unit": "region:16"}).digest()
    assert one.digest() != ReleaseRequest("laplace", {"epsilon": 1, "unit": "region:16"}).digest()
