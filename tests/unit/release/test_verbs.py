"""The verbs of the package: the shape of the commands, what they return, and what a type checker sees."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer.main

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import spell
from sfumato.reports import KeyRing, PackVerification

VERBS = ("protect", "plan", "audit", "report", "learn", "publish", "federate", "verify", "load_model")
SOURCE = Path(sf.__file__).parents[1]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def records(home):
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    np.savez(home / "own.npz", x=rng.normal(size=(300, 4)) + 3.0 * labels[:, None], y=labels)
    return home / "own.npz"


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_functions_and_listed(verb):
    assert inspect.isfunction(getattr(sf, verb))
    assert verb in dir(sf)


@pytest.mark.parametrize("verb", ["learn", "publish", "federate"])
def test_options_are_those_of_the_command(verb):
    """Options of the command that some methods take are the ``parameters`` of the function."""
    from sfumato.cli import app

    command = typer.main.get_command(app).commands[verb].loaded
    function = inspect.signature(getattr(sf, verb)).parameters
    typed = {one.name: one for one in command.params}
    assert list(function)[:2] == ["source", "output"]
    assert set(function) - set(typed) <= {"keys", "randomness", "progress", "warn", "parameters"}
    assert function["parameters"].kind is inspect.Parameter.VAR_KEYWORD
    for name in set(function) & set(typed) - {"source", "output"}:
        assert function[name].default == typed[name].default, name


def test_a_model_is_planned_learned_loaded_and_verified(records, home):
    pytest.importorskip("torch")
    options = {"epsilon": 4.0, "classes": 3, "reach": 8.0, "steps": 5, "audit": False, "pictures": "x"}
    planned = sf.learn(records, plan=True, **options)
    assert not (home / "model").exists()
    with sf.Ledger(f"sqlite:///{home}/budget.db") as ledger:
        ledger.open("ward", 8.0, 1e-5)
        done = sf.learn(records, home / "model", dataset="ward", ledger=ledger, **options)
        assert done.statement.proven.epsilon() <= 4.0 * (1.0 + 1e-9)
        assert planned.statement.mechanism == done.statement.mechanism
        assert sf.verify(home / "model", ledger=ledger).holds
    assert sf.verify(home / "model", ledger=f"sqlite:///{home}/budget.db").holds
    assert len(sf.load_model(home / "model").predict(np.zeros((2, 4)))) == 2


def test_what_a_method_does_not_take_is_refused_by_its_name(records, home):
    pytest.importorskip("torch")
    given = {"epsilon": 4.0, "classes": 3, "reach": 8.0, "pictures": "x"}
    with pytest.raises(sf.BadInput, match="bandwidth") as refused:
        sf.learn(records, home / "model", bandwidth=0.3, **given)
    assert "--" not in str(refused.value)
    with pytest.raises(sf.BadInput, match="learn needs `output`"):
        sf.learn(records, **given)
    with pytest.raises(sf.BadInput, match="`spread` and `pace` both set"):
        sf.learn(records, home / "model", spread=1.0, pace=1.0, **given)


def test_pictures_are_published(home):
    rng = np.random.default_rng(0)
    np.savez(home / "own.npz", x=rng.integers(0, 256, (200, 8, 8), dtype=np.uint8), y=np.arange(200) % 2)
    options = {"epsilon": 8.0, "classes": 2, "kept": 4, "parts": 1, "audit": False}
    assert sf.publish(home / "own.npz", plan=True, **options).statement.proven.epsilon() <= 8.0
    done = sf.publish(home / "own.npz", home / "out.npz", **options)
    assert done.output == home / "out.npz"
    assert sf.verify(home / "out.npz").holds


def test_clients_train_together(records, home):
    pytest.importorskip("torch")
    options = {"clients": 3, "rounds": 2, "epsilon": 50.0, "clip": 1.0, "classes": 3, "pictures": "x"}
    planned, said = sf.federate(records, plan=True, **options), []
    done = sf.federate(records, home / "model", warn=said.append, **options)
    assert planned.statement.proven == done.statement.proven
    assert said[0] == planned.cost()
    assert "over all rounds" in said[0]
    assert sf.verify(home / "model").holds


def test_a_release_that_was_altered_does_not_hold(home):
    np.save(home / "x.npy", np.zeros((4, 2)))
    sf.protect(home / "x.npy", home / "out.npy", sf.Gaussian(1.0, clip=1.0))
    assert sf.verify(home / "out.npy", keys=KeyRing()).holds
    (home / "out.npy").write_bytes((home / "out.npy").read_bytes() + b"\0")
    assert not sf.verify(home / "out.npy").holds
    assert not PackVerification(home, ("budget.csv",)).holds


def test_a_release_is_its_array():
    release = sf.Gaussian(1.0, clip=1.0).release(np.zeros((3, 2)))
    assert np.asarray(release) is release.value
    assert np.asarray(release, dtype=np.float32).dtype == np.float32
    copy = np.array(release)
    assert copy.tobytes() == release.value.tobytes()
    assert copy is not release.value
    assert np.mean(release) == release.value.mean()


@pytest.mark.slow
def test_a_type_checker_knows_the_names_and_their_types(tmp_path):
    """A three-line file. The cache is that of ``make check``, since the whole package is read."""
    file = tmp_path / "three_lines.py"
    file.write_text(
        "import sfumato as sf\n"
        "reveal_type(sf.Gaussian(1.0, clip=1.0).release([[1.0]]).value)\n"
        "sf.nonsense(sf.learn('a.npz', 'model').output, sf.learn('a.npz', plan=True).statement)\n"
    )
    settings, cache = SOURCE.parent / "pyproject.toml", SOURCE.parent / ".mypy_cache"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", cache, file],
        env=os.environ | {"MYPYPATH": str(SOURCE)},
        cwd=SOURCE.parent,
        capture_output=True,
        text=True,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, checked.stdout + checked.stderr
    assert 'Module has no attribute "nonsense"' in errors[0]
    assert "ndarray" in next(line for line in checked.stdout.splitlines() if "Revealed type" in line)


def test_the_name_of_a_mechanism_is_answered_with_the_call_that_makes_it(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    for verb in (sf.plan, lambda source, given: sf.protect(source, tmp_path / "y.npy", given)):
        with pytest.raises(sf.BadInput, match=r"give the mechanism itself, as in sf\.mechanism\('gaussian'"):
            verb(tmp_path / "x.npy", "gaussian")
    assert not (tmp_path / "y.npy").exists()


def test_what_is_said_beside_a_request_is_refused_and_not_forgotten(tmp_path):
    """A dataset beside a request that names none would be released for nothing."""
    from sfumato.release import ReleaseRequest

    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    wanted = ReleaseRequest("gaussian", {"epsilon": 1.0, "clip": 1.0})
    with sf.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.open("data", epsilon=8, delta=1e-6)
        for beside in ({"dataset": "data"}, {"array": "a"}, {"disjoint": True}, {"public_names": True}):
            (name,) = beside
            for call in (
                lambda given: sf.plan(tmp_path / "x.npy", wanted, ledger=ledger, **given),
                lambda given: sf.protect(
                    tmp_path / "x.npy", tmp_path / "y.npy", wanted, ledger=ledger, **given
                ),
            ):
                with pytest.raises(sf.BadInput, match=f"`{name}` was given beside a ReleaseRequest"):
                    call(beside)
        with pytest.raises(sf.BadInput, match="`request` was given beside"):
            sf.protect(tmp_path / "x.npy", tmp_path / "y.npy", wanted, ledger=ledger, request="r")
        assert [entry.kind for entry in ledger.history("data")] == ["open"]
    assert not (tmp_path / "y.npy").exists()


def test_keyed_noise_refuses_another_schema_before_it_is_paid(home):
    """What the noise tells apart when it is drawn is told apart before: after payment is too late."""
    (home / "a.csv").write_text("age,height\n1,2\n3,4\n")
    (home / "b.csv").write_text("x,y\n5,6\n7,8\n")
    columns = {name: {"kind": "numeric", "bounds": [0, 9]} for name in ("age", "height")}
    others = {name: {"kind": "numeric", "bounds": [0, 9]} for name in ("x", "y")}
    noise = sf.Keyed(b"k" * 32, dataset="data", version="1", release="r")
    mechanism = sf.Gaussian(epsilon=1.0, randomness=noise)
    from sfumato.io import Schema

    with sf.Ledger(f"sqlite:///{home / 'ledger.db'}") as ledger:
        ledger.open("data", epsilon=80, delta=1e-6)
        words = {"dataset": "data", "ledger": ledger}
        sf.protect(
            home / "a.csv",
            home / "a.out.csv",
            mechanism,
            schema=Schema.from_dict({"columns": columns}),
            **words,
        )
        spent = len(ledger.history("data"))
        with pytest.raises(sf.BadInput, match="was made from other content"):
            sf.protect(
                home / "b.csv",
                home / "b.out.csv",
                mechanism,
                schema=Schema.from_dict({"columns": others}),
                **words,
            )
        assert len(ledger.history("data")) == spent
    assert not (home / "b.out.csv").exists()


def test_data_in_memory_is_answered_with_the_call_that_releases_it(tmp_path):
    X = np.zeros((3, 2))
    for call in (
        lambda: sf.protect(X, tmp_path / "out.npz", sf.Gaussian(epsilon=1.0, clip=1.0)),
        lambda: sf.plan(X, sf.Gaussian(epsilon=1.0, clip=1.0)),
    ):
        with pytest.raises(
            sf.BadInput, match=r"not ndarray; .* `sf.Gaussian\(epsilon=1.0, clip=1.0\).release"
        ):
            call()


def test_results_are_printed_as_the_command_prints_them(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    mechanism = sf.Gaussian(epsilon=1.0, clip=1.0)
    plan = sf.plan(tmp_path / "x.npy", mechanism)
    done = sf.protect(tmp_path / "x.npy", tmp_path / "out.npy", mechanism)
    words = ["--epsilon", "1", "--clip", "1"]
    for result, command in (
        (plan, ["plan", str(tmp_path / "x.npy"), *words]),
        (done, ["protect", str(tmp_path / "x.npy"), "-o", str(tmp_path / "out.npy"), *words, "--overwrite"]),
        (sf.verify(tmp_path / "out.npy"), ["verify", str(tmp_path / "out.npy")]),
    ):
        with pytest.raises(SystemExit):
            main(command)
        assert capsys.readouterr().out.rstrip() == spell(str(result), "command line").rstrip()
