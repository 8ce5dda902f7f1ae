"""Golden cases at the doors: the command line, REST, gRPC and the storage proxy, each in this process.

What is not public, and moves when modules are renamed, is imported in :func:`inner` alone.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import io
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import typer.main
from python_cases import (
    SECRET,
    certificate,
    numbers,
    read_released,
    write_sources,
)

import sfumato as sf
from golden import DISTRUST, Array, as_shape


def inner() -> SimpleNamespace:
    """Return what the doors are made of, by names of the package's own modules."""
    from sfumato.cli import app, main
    from sfumato.mechanisms import MECHANISMS as by_name
    from sfumato.release import METHODS
    from sfumato.serve import Service, Settings
    from sfumato.serve.grpc import SfumatoStub, make_server, sfumato_pb2
    from sfumato.serve.jobs import Runner
    from sfumato.serve.rest import make_app

    return SimpleNamespace(
        app=app,
        main=main,
        mechanisms=by_name,
        learners=METHODS["learn"],
        publishers=METHODS["publish"],
        pb=sfumato_pb2,
        make_server=make_server,
        stub=SfumatoStub,
        runner=Runner,
        make_app=make_app,
        service=Service,
        settings=Settings,
    )


# The command line

FLAG = f"--{DISTRUST}"
LEDGER = ("--ledger", "sqlite:///budget.db")
CLIPPED = ("--epsilon", "1", "--delta", "1e-6", "--clip", "1.0", "--neighbours", "replace")
BOUNDED = ("--bounds", "-1", "1", "--outside", "refuse")
SCALE = ("--bounds", "0", "255", "--outside", "refuse")
REGION = ("--epsilon", "4", "--unit", "region:8")

#: For every mechanism that can be named on the command line, a source and the options that describe it.
BY_NAME: dict[str, tuple[str, tuple[str, ...]]] = {
    "additive-noise": ("x.npy", ("--scale", "0.1")),
    "band-noise": ("a.wav", ("--epsilon", "4", "--unit", "window:20", "--clip", "1", "--restore", "wiener")),
    "binary-encoding": ("x.npy", ("--bits", "6", "--flip", "0.1", "--bounds", "-1", "1")),
    "blur": ("a.png", ("--sigma", "2", "--unit", "region:8")),
    "content-adaptive": ("a.png", (*REGION, "--delta", "0", "--map", "boxes.json", "--block", "4")),
    "dp-pix": ("a.png", ("--epsilon", "1", "--unit", "pixels:16", "--block", "8")),
    "duchi": ("x.npy", ("--epsilon", "1", "--coordinates", "2", *BOUNDED)),
    "gaussian": ("x.npy", CLIPPED),
    "grid-tensor-ldp": ("tensors.npz", ("--epsilon", "6", "--levels", "8", "--unit", "tensor", *SCALE)),
    "hybrid": ("x.npy", ("--epsilon", "2", "--coordinates", "2", *BOUNDED)),
    "laplace": ("x.npy", ("--epsilon", "1", "--clip", "1", "--neighbours", "replace")),
    "mask": ("a.png", ("--map", "boxes.json", "--unit", "region:8")),
    "mel-laplace": ("a.wav", ("--epsilon", "1", "--unit", "window:20")),
    "personalised": ("x.npy", ("--epsilon-file", "budgets.npy", "--delta", "1e-6", "--clip", "1")),
    "piecewise": ("x.npy", ("--epsilon", "2", "--coordinates", "2", *BOUNDED)),
    "pixelate": ("a.png", ("--block", "8", "--unit", "region:8")),
    "plane-bands": ("a.png", (*REGION, "--delta", "0", "--restore", "wiener")),
    "plane-means": ("a.png", (*REGION, "--delta", "0", "--block", "4", "--restore", "learned")),
    "priv-unit": ("x.npy", ("--epsilon", "4", "--clip", "1")),
    "priv-unit-g": ("x.npy", ("--epsilon", "4", "--clip", "1")),
    "random-projection": ("x.npy", ("--components", "3")),
    "randomised-response": ("categories.npz", ("--epsilon", "1", "--categories", "4")),
    "reconstruction-resistant": ("x.npy", ("--components", "3")),
    "scaled-pixels": ("grey.png", ("--epsilon", "1", "--unit", "region:8")),
    "selective-noise": ("grey.png", ("--epsilon", "1", "--unit", "pixels:1", "--strategy", "random")),
    "spectral-laplace": ("grey.png", ("--epsilon", "1", "--unit", "region:8", "--noise", "laplace")),
    "tensor-ldp": (
        "tensors.npz",
        ("--epsilon", "1", "--noise", "laplace", "--retain", "algorithm", "--unit", "component", *SCALE),
    ),
    "trust-adaptive": (
        "x.npy",
        (FLAG, "0.4", "--epsilon", "1", "8", "--delta", "1e-6", "--clip", "1", "--calibration", "analytic"),
    ),
    "uniform-pixels": ("a.png", (*REGION, "--delta", "0")),
    "weighted-tensor-ldp": ("tensors.npz", ("--epsilon", "1", "--weights", "weights.npy", *SCALE)),
}


# The parser takes half a second to build, and is the same for every command.
_built = functools.cache(typer.main.get_command)


class CommandLine:
    """Runs commands in this process, in one folder with a home of its own whose secrets are known."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.main = folder, inner().main
        home = folder / "home"
        home.mkdir(mode=0o700)
        (home / "noise.key").write_bytes(SECRET)

    def __call__(self, *words: str) -> dict[str, Any]:
        """Return the exit code of a command and what it printed, read as JSON where it is."""
        out, err = io.StringIO(), io.StringIO()
        code: Any = None
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch("typer.main.get_command", _built),
        ):
            try:
                self.main([str(word) for word in words])
            except SystemExit as end:
                code = end.code
        printed: Any = out.getvalue()
        with contextlib.suppress(ValueError):
            printed = json.loads(printed)
        asked = " ".join("--trust" if word == FLAG else str(word) for word in words)
        return {"command": asked, "code": code, "printed": printed, "said": err.getvalue()}


def prepared(folder: Path) -> CommandLine:
    """Return a command line in a folder with all sources."""
    write_sources(folder)
    boxes = {"a.png": {"boxes": [{"category": "face", "bbox_xywh": [2, 3, 10, 12]}]}}
    (folder / "boxes.json").write_text(json.dumps(boxes))
    np.save(folder / "budgets.npy", np.linspace(0.5, 2.0, 7))
    np.save(folder / "weights.npy", np.array([[0.0, 0.5, 1.0], [0.2, 0.4, 0.6]]))
    pictures = np.round(numbers(80, 8, 8, low=0.0, high=255.0)).astype(np.uint8)
    np.savez(folder / "digits.npz", x=pictures, y=np.arange(80) % 4)
    features = numbers(80, 6, step=29) + np.eye(6)[np.arange(80) % 4]
    np.savez(folder / "features.npz", x=features, y=np.arange(80) % 4)
    np.savez(folder / "later.npz", x=features[:20] + 0.01, y=np.arange(20) % 4)
    np.savez(folder / "many.npz", X=numbers(120, 4, step=29) / 2.0, y=np.arange(120) % 3)
    return CommandLine(folder)


def command_plans(folder: Path) -> dict[str, Any]:
    """Return ``plan --json`` for every mechanism by its name, and for every kind of source."""
    run = prepared(folder)
    found = {
        name: run("plan", source, "--mechanism", name, *options, "--json")
        for name, (source, options) in BY_NAME.items()
    }
    for source, options in {
        "x.npz": ("--array", "X", *CLIPPED),
        "people.csv": ("--schema", "people.toml", "--epsilon", "1", "--delta", "1e-6"),
        "people.parquet": ("--schema", "people.toml", "--epsilon", "1", "--delta", "1e-6"),
        "a.jpg": (*REGION, "--delta", "1e-6"),
        "a.flac": ("--epsilon", "4", "--delta", "0", "--unit", "window:20"),
        "a.mp4": ("--epsilon", "40", "--delta", "1e-6", "--unit", "clip"),
        "album": (*REGION, "--delta", "0"),
        "arrays": (*CLIPPED, "--disjoint"),
    }.items():
        found[f"of {source}"] = run("plan", source, *options, "--json")
    for unit in ("frame", "window:20", "channel", "item"):
        found[f"of a.mp4 by {unit}"] = run(
            "plan", "a.mp4", "--epsilon", "40", "--delta", "1e-6", "--unit", unit, "--json"
        )
    found["private map"] = run("plan", "a.png", *REGION, "--delta", "0", "--map", "private", "--json")
    found["transformed"] = run("plan", "x.npy", *CLIPPED, "--alpha", "0.7", "--json")
    return found


def commands(folder: Path) -> dict[str, Any]:
    """Return ``--json`` of the commands around releases, in the order in which people give them."""
    run = prepared(folder)
    found: dict[str, Any] = {}

    def ran(name: str, *words: str) -> dict[str, Any]:
        found[name] = run(*words)
        return found[name]

    ran("key new", "key", "new", "--json")
    shown = ran("key show", "key", "show", "--json")["printed"]
    (folder / "public.pem").write_text(shown["pem"])
    ran("key trust", "key", "trust", "public.pem", "--json")
    opened = ("--epsilon", "20", "--delta", "1e-5", *LEDGER, "--json")
    ran("budget open", "budget", "open", "clinic", "--unit", "record", "--neighbours", "replace", *opened)
    ran(
        "budget open, region",
        "budget",
        "open",
        "album",
        "--unit",
        "region(8)",
        "--neighbours",
        "replace",
        *opened,
    )
    paid = ("--dataset", "clinic", *LEDGER, "--request", "monday", "--data-version", "1", "--json")
    for name, source, words in (
        ("gaussian", "x.npy", CLIPPED),
        ("trust", "x.npz", ("--mechanism", "trust-adaptive", "--array", "X", *BY_NAME["trust-adaptive"][1])),
        ("table", "people.csv", ("--schema", "people.toml", "--epsilon", "1", "--delta", "1e-6")),
    ):
        output = f"{name}{Path(source).suffix}"
        request = [word if word != "monday" else name for word in paid]
        ran(f"protect, {name}", "protect", source, "-o", output, *words, *request)
        found[f"protect, {name}"] |= {
            "released": read_released(folder / output),
            "certificate": certificate(folder / output),
        }
    ran(
        "protect again",
        "protect",
        "x.npy",
        "-o",
        "gaussian.npy",
        *CLIPPED,
        *[w if w != "monday" else "gaussian" for w in paid],
    )
    ran(
        "protect, uncharged",
        "protect",
        "x.npy",
        "-o",
        "free.npy",
        *CLIPPED,
        "--dataset",
        "clinic",
        "--uncharged",
        "--json",
    )
    album = ("--dataset", "album", *LEDGER, "--request", "monday", "--public-names", "--json")
    ran(
        "protect, folder",
        "protect",
        "album",
        "-o",
        "soft",
        *REGION,
        "--delta",
        "1e-6",
        "--block",
        "4",
        *album,
    )
    found["protect, folder"]["released"] = {
        name: read_released(folder / "soft" / name) for name in ("one.png", "two.png")
    }
    ran("plan, charged", "plan", "x.npy", *CLIPPED, "--dataset", "clinic", *LEDGER, "--json")
    ran("verify", "verify", "gaussian.npy", *LEDGER, "--json")
    ran("verify, folder", "verify", "soft", *LEDGER, "--json")
    shutil.copy(folder / "gaussian.npy.cert.json", folder / "x.npy.cert.json")
    ran("verify, altered", "verify", "x.npy", *LEDGER, "--json")
    ran("budget show", "budget", "show", "clinic", *LEDGER, "--json")
    ran("budget show, all", "budget", "show", *LEDGER, "--json")
    ran("budget history", "budget", "history", "clinic", *LEDGER, "--json")
    ran("budget check", "budget", "check", *LEDGER, "--json")
    ran("budget export, json", "budget", "export", "clinic", "--format", "json", *LEDGER)
    exported = ran("budget export, csv", "budget", "export", "clinic", "--format", "csv", *LEDGER)["printed"]
    found["budget export, csv"]["printed"] = {
        "header": exported.splitlines()[0],
        "lines": exported.count("\n"),
    }
    with contextlib.chdir(folder), sf.Ledger(LEDGER[1]) as book:
        held = book.hold("clinic", sf.Laplace(epsilon=0.5, clip=1.0).guarantee(), "a job", "held")
    ran("budget release", "budget", "release", "clinic", str(held.number), *LEDGER, "--json")
    ran(
        "report page", "report", "gaussian.npy", "-o", "report.html", "--dataset", "clinic", *LEDGER, "--json"
    )
    ran("report pack", "report", "pack", "clinic", "-o", "pack", *LEDGER, "--json")
    ran("verify, pack", "verify", "pack", "--json")
    ran("budget close", "budget", "close", "clinic", *LEDGER, "--json")
    ran(
        "protect, refused",
        "protect",
        "x.npy",
        "-o",
        "late.npy",
        *CLIPPED,
        "--dataset",
        "clinic",
        *LEDGER,
        "--json",
    )
    with _identifiers("b2"):
        ran("serve tenant", "serve", "--data", "service", "tenant", "clinic", "--json")
    ran("serve tenants", "serve", "--data", "service", "tenants", "--json")
    ran("serve quotas", "serve", "--data", "service", "quotas", "clinic", "--jobs-at-once", "2", "--json")
    ran("serve key", "serve", "--data", "service", "key", "clinic", "--json")
    ran("serve close", "serve", "--data", "service", "close", "clinic", "--json")
    ran("serve lost-spends", "serve", "--data", "service", "lost-spends", "--json")
    return found


@contextlib.contextmanager
def _identifiers(pair: str) -> Iterator[None]:
    """Let identifiers that are made meanwhile be known: the name of a tenant enters its keyed noise."""
    with mock.patch("secrets.token_hex", lambda count: pair * count):
        yield


# What holds numbers that depend on what was learned or attacked, which depends on torch and BLAS.
MEASURED = ("measured", "findings", "accuracy", "attacks", "audit", "class_by_class")
PROMISE = ("--epsilon", "8", "--delta", "1e-3")
DESCENT = ("--steps", "5", "--clip", "0.1", "--pace", "1", "--momentum", "0.5")
CONTRACTION = ("--bandwidth", "adaptive", "--share", "0.5", "--epochs", "1", "--batch", "40", "--rate", "0.1")
LEARNING = ("--classes", "4", "--no-audit", "--json")
#: For every method of learning, a source and the options that describe it; numbers are not compared.
LEARNERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dp-sgd": (
        "features.npz",
        (*PROMISE, "--neighbours", "zero-out", "--reach", "3", *DESCENT, "--sampling", "1"),
    ),
    "compact-certified": (
        "features.npz",
        (*PROMISE, "--neighbours", "zero-out", "--reach", "3", *DESCENT),
    ),
    "compact": (
        "features.npz",
        CONTRACTION,
    ),
    "compact-private": (
        "features.npz",
        (*PROMISE, *CONTRACTION, *DESCENT, "--sampling", "0.5", "--mode", "accountant"),
    ),
}
PUBLISHING = ("--classes", "4", "--no-audit", "--json")
#: For every method of publishing, the options that describe it, and whether it is run or only planned.
PUBLISHERS: dict[str, tuple[tuple[str, ...], bool]] = {
    "certified": (
        ("--epsilon", "20", "--delta", "1e-5", "--neighbours", "replace", "--kept", "6", "--parts", "2"),
        True,
    ),
    "curvature": (("--latent", "2", "--centres", "8", "--strategy", "lowest", "--decoder", "dense"), False),
    "pixelation": (("--block", "3"), True),
    "blur": (("--radius", "1.5"), True),
    "k-anonymity": (("--k", "2", "--clusters", "6", "--small", "kept"), False),
    "vaegan-dp": (
        (
            "--multiplier",
            "2",
            "--delta",
            "1e-5",
            "--rate",
            "0.5",
            "--steps",
            "2",
            "--latent",
            "2",
            "--mode",
            "private",
        ),
        True,
    ),
    "dpdm": (("--multiplier", "2", "--delta", "1e-5", "--rate", "0.5", "--steps", "1"), True),
}
FEDERATION = (
    *(
        "--classes",
        "4",
        "--clients",
        "2",
        "--rounds",
        "2",
        "--delta",
        "1e-5",
        "--clip",
        "1",
        "--model",
        "linear",
    ),
    *("--epochs", "1", "--batch", "16", "--rate", "0.05", "--seed", "0", "--neighbours", "replace", "--json"),
)
#: For every mechanism of federated clients, the options that describe it.
FEDERATED: dict[str, tuple[str, ...]] = {
    "gaussian": (),
    "laplace": (),
    "grid-tensor-ldp": ("--limit", "1", "--levels", "8"),
    "priv-unit": (),
    "priv-unit-g": (),
    "repeated-priv-unit-g": (),
    "duchi": ("--limit", "1"),
    "hybrid": ("--limit", "1"),
    "piecewise": ("--limit", "1"),
    "layer-adaptive": (),
    "hessian-clipped": ("--curvature", "own"),
    "matrix-variate-gaussian": (),
    "independent-directional": (),
    "tensor-ldp": ("--noise", "laplace", "--span", "256", "--retain", "proof"),
    "none": (),
}


def trained(folder: Path) -> dict[str, Any]:
    """Return ``--json`` of learning, publishing, federating and auditing: statements and shapes."""
    run = prepared(folder)
    found: dict[str, Any] = {}
    for name, (source, options) in LEARNERS.items():
        asked = ("learn", source, "--method", name, *options, *LEARNING)
        found[f"learn, {name}, plan"] = run(*asked, "--plan")
        found[f"learn, {name}"] = run(*asked, "-o", f"model-{name}", "--test", "later.npz")
        found[f"learn, {name}"]["files"] = _kept(folder / f"model-{name}")
    found["learn, pictures"] = run(
        *("learn", "digits.npz", "-o", "model-pictures", "--method", "dp-sgd", "--extractor", "pixels"),
        *("--epsilon", "8", "--delta", "1e-3", "--neighbours", "zero-out", "--steps", "5", "--clip", "0.1"),
        *("--pace", "1", "--momentum", "0.5", "--sampling", "1", *LEARNING),
    )
    found["verify, model"] = run("verify", "model-dp-sgd", "--json")
    for name, (options, is_run) in PUBLISHERS.items():
        classes = PUBLISHING if name in ("certified", "vaegan-dp", "dpdm") else PUBLISHING[2:]
        asked = ("publish", "digits.npz", "--method", name, *options, *classes)
        found[f"publish, {name}, plan"] = run(*asked, "--plan")
        if is_run:
            count = () if name in ("pixelation", "blur") else ("--records", "12")
            done = run(*asked, "-o", f"published-{name}.npz", *count)
            done["arrays"] = _kept(folder, f"published-{name}.npz")
            done["printed"].pop("what", None)  # in how many classes the pictures are, which is drawn
            found[f"publish, {name}"] = done
    for name, options in FEDERATED.items():
        epsilon = () if name == "none" else ("--epsilon", "300")
        asked = ("federate", "features.npz", "--mechanism", name, *epsilon, *options, *FEDERATION)
        found[f"federate, {name}, plan"] = run(*asked, "--plan")
    asked = ("federate", "features.npz", "--mechanism", "gaussian", "--epsilon", "300", *FEDERATION)
    found["federate"] = run(*asked, "-o", "model-federated", "--engine", "rounds", "--test", "later.npz")
    found["federate"]["files"] = _kept(folder / "model-federated")
    found["federate, central, plan"] = run(
        *(
            "federate",
            "features.npz",
            "--mechanism",
            "gaussian",
            "--epsilon",
            "8",
            "--central",
            "--sample",
            "0.5",
        ),
        *[word if word != "replace" else "zero-out" for word in FEDERATION],
        "--plan",
    )
    run("protect", "many.npz", "--array", "X", "-o", "audited.npz", *CLIPPED, "--json")
    audit = ("audit", "many.npz", "audited.npz", "--array", "X", "--labels", "y", "--delta", "1e-6")
    found["audit"] = _audited(run(*audit, "--confidence", "0.99", "--seed", "0", "--json"))
    alone = ("audit", "--mechanism-only", "audited.npz", "--confidence", "0.9", "--seed", "0", "--json")
    found["audit, mechanism"] = _audited(run(*alone))
    paper = run("paper", "multimedia-dp", "--figure", "2", "--quick", "-o", "figures", "--json")
    found["paper"] = _rounded(paper)
    return {name: without_measures(document) for name, document in found.items()}


def _rounded(document: Any) -> Any:
    """Return ``document`` with numbers of six digits, for what is computed by FFT."""
    if isinstance(document, dict):
        return {name: _rounded(value) for name, value in document.items()}
    if isinstance(document, list):
        return [_rounded(value) for value in document]
    return float(f"{document:.6g}") if isinstance(document, float) else document


def _audited(ran: dict[str, Any]) -> dict[str, Any]:
    """Return the form of an audit: its fields, its attacks, what is proven; its noise is drawn anew."""
    printed = ran["printed"]
    attacks = [f"{one['attack']}: {one['measure']}" for one in printed["findings"]]
    form = {
        "fields": sorted(printed),
        "fields of a finding": sorted(printed["findings"][0]),
        "fields of evidence": sorted(printed["statement"]["measured"][0]),
        "proven": printed["statement"]["proven"],
        "parameters": printed["statement"]["parameters"],
        "attacks": attacks,
    }
    return ran | {"printed": form}


def without_measures(document: Any, measured: bool = False) -> Any:
    """Return ``document`` without the numbers and verdicts that were measured on what was trained."""
    if isinstance(document, Array):
        return document
    if isinstance(document, dict):
        return {
            name: without_measures(value, measured or name in MEASURED) for name, value in document.items()
        }
    if isinstance(document, list):
        return [without_measures(value, measured) for value in document]
    return "<measured>" if measured and isinstance(document, bool | float) else document


def _kept(folder: Path, pattern: str = "*") -> dict[str, Any]:
    """Return the files of a kept model, with the shapes of the arrays in them."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob(pattern)):
        if file.suffix == ".npz":
            with np.load(file) as archive:
                found[file.name] = {name: as_shape(archive[name]) for name in archive.files}
        elif file.suffix == ".safetensors":
            content = file.read_bytes()
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            found[file.name] = {name: [one.get("dtype"), one.get("shape")] for name, one in header.items()}
        elif file.name == "manifest.json":
            found[file.name] = {"fields": sorted(json.loads(file.read_text("utf-8")))}
        elif file.name == "model.json":
            found[file.name] = json.loads(file.read_text("utf-8"))
        elif file.is_file():
            found[file.name] = "a file"
    return found


#: Commands that are refused.
REFUSED: dict[str, tuple[str, ...]] = {
    "no command": ("nonsense",),
    "no source": ("protect",),
    "no output": ("protect", "x.npy", *CLIPPED),
    "no bound": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "1"),
    "no epsilon": ("protect", "x.npy", "-o", "o.npy", "--clip", "1"),
    "two epsilons": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "1", "8", "--clip", "1"),
    "one epsilon": (
        "protect",
        "x.npy",
        "-o",
        "o.npy",
        "--mechanism",
        "trust-adaptive",
        "--epsilon",
        "1",
        "--clip",
        "1",
    ),
    "epsilon is text": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "one", "--clip", "1"),
    "epsilon 0": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "0", "--clip", "1"),
    "delta 2": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "1", "--delta", "2", "--clip", "1"),
    "clip below 0": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "1", "--clip", "-1"),
    "both bounds": ("protect", "x.npy", "-o", "o.npy", *CLIPPED, "--bounds", "0", "1"),
    "one bound": ("protect", "x.npy", "-o", "o.npy", "--epsilon", "1", "--bounds", "1"),
    "trust above 1": (
        "plan",
        "x.npy",
        "--mechanism",
        "trust-adaptive",
        "--epsilon",
        "1",
        "8",
        "--clip",
        "1",
        FLAG,
        "2",
    ),
    "trust of another": ("plan", "x.npy", *CLIPPED, FLAG, "0.5"),
    "option of another": ("plan", "x.npy", *CLIPPED, "--levels", "4"),
    "option of media": ("plan", "x.npy", *CLIPPED, "--block", "4"),
    "option of records": ("plan", "a.png", *REGION, "--schema", "people.toml"),
    "unknown option": ("plan", "x.npy", "--epsilom", "1"),
    "unknown mechanism": ("plan", "x.npy", "--mechanism", "gausian", "--epsilon", "1", "--clip", "1"),
    "mechanism of pictures": ("plan", "x.npy", "--mechanism", "plane-means", "--epsilon", "1"),
    "mechanism of records": ("plan", "a.png", "--mechanism", "gaussian", "--epsilon", "1"),
    "unit of sounds": ("plan", "a.png", "--epsilon", "4", "--unit", "window:20"),
    "unit unknown": ("plan", "a.png", "--epsilon", "4", "--unit", "planet"),
    "unit of videos": ("plan", "a.wav", "--epsilon", "4", "--unit", "frame"),
    "content-adaptive without map": ("plan", "a.png", "--mechanism", "content-adaptive", *REGION),
    "missing file": ("plan", "none.npz", *CLIPPED),
    "unknown suffix": ("plan", "people.toml", *CLIPPED),
    "several arrays": ("plan", "x.npz", *CLIPPED),
    "table without schema": ("plan", "people.csv", "--epsilon", "1"),
    "table by another": (
        "plan",
        "people.csv",
        "--schema",
        "people.toml",
        "--mechanism",
        "duchi",
        "--epsilon",
        "1",
    ),
    "another schema": ("plan", "people.csv", "--schema", "words.toml", "--epsilon", "1"),
    "bounds from data planned": ("plan", "x.npy", "--epsilon", "1", "--bounds-from-data"),
    "output is the input": ("protect", "x.npy", "-o", "x.npy", *CLIPPED),
    "output of another kind": ("protect", "x.npy", "-o", "o.csv", *CLIPPED),
    "ledger without dataset": ("plan", "x.npy", *CLIPPED, *LEDGER),
    "request without dataset": ("protect", "x.npy", "-o", "o.npy", *CLIPPED, "--request", "a"),
    "no budget": ("protect", "x.npy", "-o", "o.npy", *CLIPPED, "--dataset", "nobody", *LEDGER),
    "too much": (
        "protect",
        "x.npy",
        "-o",
        "o.npy",
        "--epsilon",
        "9",
        "--delta",
        "1e-6",
        "--clip",
        "1",
        "--dataset",
        "small",
        *LEDGER,
    ),
    "another unit": ("protect", "a.png", "-o", "o.png", *REGION, "--dataset", "small", *LEDGER),
    "no certificate": ("verify", "x.npy"),
    "verify nothing": ("verify", "none.npy"),
    "budget opened twice": ("budget", "open", "small", "--epsilon", "2", "--delta", "0", *LEDGER),
    "budget unknown": ("budget", "show", "nobody", *LEDGER),
    "budget of unit": (
        "budget",
        "open",
        "other",
        "--epsilon",
        "1",
        "--delta",
        "0",
        "--unit",
        "planet",
        *LEDGER,
    ),
    "hold unknown": ("budget", "release", "small", "9", *LEDGER),
    "ledger unknown": ("budget", "show", "small", "--ledger", "sqlite:///none.db"),
    "ledger is no URL": ("budget", "show", "small", "--ledger", "nonsense"),
    "key is none": ("key", "trust", "people.toml"),
    "publish without output": ("publish", "digits.npz", "--epsilon", "1", "--classes", "4"),
    "publish unknown": ("publish", "digits.npz", "-o", "o.npz", "--method", "magic", "--classes", "4"),
    "publish without classes": ("publish", "digits.npz", "-o", "o.npz", "--epsilon", "1"),
    "publish, option of another": ("publish", "digits.npz", "-o", "o.npz", "--method", "blur", "--k", "3"),
    "learn without epsilon": ("learn", "features.npz", "-o", "m", "--classes", "4", "--reach", "1"),
    "learn without reach": ("learn", "features.npz", "-o", "m", "--classes", "4", "--epsilon", "1"),
    "learn unknown": ("learn", "features.npz", "-o", "m", "--method", "magic", "--classes", "4"),
    "federate without clip": ("federate", "features.npz", "-o", "m", "--classes", "4", "--epsilon", "8"),
    "federate unknown": ("federate", "features.npz", "-o", "m", "--mechanism", "magic", "--classes", "4"),
    "federate, option of another": (
        *(
            "federate",
            "features.npz",
            "-o",
            "m",
            "--classes",
            "4",
            "--epsilon",
            "8",
            "--clip",
            "1",
            "--levels",
            "3",
        ),
    ),
    "audit alone": ("audit", "x.npy"),
    "audit of another shape": ("audit", "x.npy", "budgets.npy"),
    "report of another suffix": ("report", "x.npy", "-o", "report.txt"),
    "paper unknown": ("paper", "nonsense"),
    "engine unknown": ("protect", "x.npy", "-o", "o.npy", *CLIPPED, "--engine", "moon"),
    "names file of a file": ("protect", "x.npy", "-o", "o.npy", *CLIPPED, "--names-file", "names.json"),
    "quota": ("serve", "--data", "service", "quotas", "nobody", "--jobs-at-once", "many"),
    "tenant unknown": ("serve", "--data", "service", "close", "nobody"),
    "tenant's name": ("serve", "--data", "service", "tenant", "a b"),
}


def command_refusals(folder: Path) -> dict[str, Any]:
    """Return exit codes and sentences of commands that are refused, and what they leave behind: nothing."""
    run = prepared(folder)
    run("budget", "open", "small", "--epsilon", "1", "--delta", "1e-6", *LEDGER)
    found = {}
    for case, words in REFUSED.items():
        before = set(folder.rglob("*"))
        told = run(*words, "--json") if words[0] != "nonsense" else run(*words)
        left = sorted(str(file.relative_to(folder)) for file in set(folder.rglob("*")) - before)
        left = [name for name in left if name.split("/")[0] not in ("service", "home")]
        found[case] = told | {"left behind": left}
    return found


# The service

GAUSSIAN = {
    "mechanism": "gaussian",
    "parameters": {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0, "neighbours": "replace"},
}
TRUSTED = {
    "mechanism": "trust-adaptive",
    "parameters": {
        DISTRUST: 0.4,
        "epsilon": [1.0, 8.0],
        "delta": 1e-6,
        "clip": 1.0,
        "calibration": "analytic",
    },
}
SCHEMA = {
    "columns": {
        "id": {"kind": "identifier"},
        "age": {"kind": "numeric", "bounds": [0, 100]},
        "pay": {"kind": "numeric", "bounds": [0, 9000]},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
        "ill": {"kind": "boolean"},
    }
}
OF_PICTURES = {
    "mechanism": "plane-means",
    "parameters": {"epsilon": 4.0, "delta": 1e-6, "unit": "region:8", "block": 4, "restore": "learned"},
}
OF_SOUNDS = {"mechanism": "band-noise", "parameters": {"epsilon": 4.0, "delta": 0.0, "unit": "window:20"}}
OF_VIDEOS = {"mechanism": "plane-means", "parameters": {"epsilon": 40.0, "delta": 1e-6, "unit": "item"}}
#: Releases that the service is asked for: dataset and unit, file, description.
SERVED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "array": ("ward", "record", "x.npy", GAUSSIAN),
    "archive": ("ward", "record", "x.npz", TRUSTED | {"array": "X"}),
    "table": (
        "ward",
        "record",
        "people.csv",
        {"mechanism": "laplace", "parameters": {"epsilon": 1.0}} | SCHEMA,
    ),
    "tensors": (
        "tensors",
        "tensor",
        "tensors.npz",
        {
            "mechanism": "grid-tensor-ldp",
            "parameters": {"epsilon": 6.0, "levels": 8, "bounds": [0, 255], "unit": "tensor"},
        },
    ),
    "picture": ("album", "region(8)", "a.png", OF_PICTURES),
    "lossy picture": ("album", "region(8)", "a.jpg", OF_PICTURES),
    "sound": ("voices", "window(20)", "a.wav", OF_SOUNDS),
    "video": ("clips", "item", "a.mp4", OF_VIDEOS),
}
#: Descriptions and files that every door of the service refuses in the same way.
UNSERVED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no bound": ("ward", "x.npy", {"mechanism": "gaussian", "parameters": {"epsilon": 1.0}}),
    "no epsilon": ("ward", "x.npy", {"mechanism": "gaussian", "parameters": {"clip": 1.0}}),
    "epsilon 0": ("ward", "x.npy", {"mechanism": "gaussian", "parameters": {"epsilon": 0.0, "clip": 1.0}}),
    "two epsilons": (
        "ward",
        "x.npy",
        {"mechanism": "gaussian", "parameters": {"epsilon": [1.0, 8.0], "clip": 1.0}},
    ),
    "delta 2": (
        "ward",
        "x.npy",
        {"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "delta": 2.0, "clip": 1.0}},
    ),
    "trust above 1": ("ward", "x.npy", TRUSTED | {"parameters": TRUSTED["parameters"] | {DISTRUST: 2.0}}),
    "unknown mechanism": ("ward", "x.npy", GAUSSIAN | {"mechanism": "gausian"}),
    "parameter of another": (
        "ward",
        "x.npy",
        {"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "clip": 1.0, "levels": 4}},
    ),
    "one bound": (
        "ward",
        "x.npy",
        {"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "bounds": [1.0]}},
    ),
    "mechanism of pictures": ("ward", "x.npy", OF_PICTURES),
    "mechanism of records": ("album", "a.png", GAUSSIAN),
    "unit of sounds": (
        "album",
        "a.png",
        {"mechanism": "plane-means", "parameters": {"epsilon": 4.0, "unit": "window:20"}},
    ),
    "several arrays": ("ward", "x.npz", GAUSSIAN),
    "unknown array": ("ward", "x.npz", GAUSSIAN | {"array": "Z"}),
    "table without schema": ("ward", "people.csv", {"mechanism": "gaussian", "parameters": {"epsilon": 1.0}}),
    "another schema": (
        "ward",
        "words.csv",
        {"mechanism": "gaussian", "parameters": {"epsilon": 1.0}} | SCHEMA,
    ),
    "no budget": ("nobody", "x.npy", GAUSSIAN),
    "another unit": ("album", "x.npy", GAUSSIAN),
    "too much": (
        "ward",
        "x.npy",
        {"mechanism": "gaussian", "parameters": {"epsilon": 90.0, "delta": 1e-6, "clip": 1.0}},
    ),
    "unknown suffix": ("ward", "people.toml", GAUSSIAN),
    "file of another kind": ("album", "renamed.png", OF_PICTURES),
}


@contextlib.contextmanager
def served(folder: Path) -> Iterator[SimpleNamespace]:
    """A service with a tenant whose name, and so whose keyed noise, is known; its owner's token."""
    run = prepared(folder)
    shutil.copy(folder / "x.npy", folder / "renamed.png")
    parts = inner()
    keys = folder / "service" / "keys"
    keys.mkdir(parents=True, mode=0o700)
    (folder / "service").chmod(0o700)
    (keys / "noise.key").write_bytes(SECRET)
    with _identifiers("a1"):
        owner = run("serve", "--data", "service", "tenant", "clinic", "--json")["printed"]["token"]
    with _identifiers("c3"):
        stranger = run("serve", "--data", "service", "tenant", "other", "--json")["printed"]["token"]
    settings = parts.settings(
        folder / "service", body_bytes=1 << 20, sources=(f"clinic=file://{folder / 'bucket'}",)
    )
    service = parts.service(settings)
    try:
        yield SimpleNamespace(service=service, owner=owner, stranger=stranger, parts=parts, folder=folder)
    finally:
        service.close()


def _answer(answer: Any, folder: Path, suffix: str = "") -> dict[str, Any]:
    """Return status, the headers that say something, and body of an answer over HTTP."""
    kept = ("content-type", "content-disposition", "www-authenticate", "x-amz-meta-sfumato-tier")
    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
    body: Any = None
    if "json" in headers.get("content-type", ""):
        body = answer.json()
    elif suffix:
        file = folder / f"answered{suffix}"
        file.write_bytes(answer.content)
        body = read_released(file)
    elif answer.content:
        body = "a page"
    return {"status": answer.status_code, "headers": headers, "body": body}


def rest(folder: Path) -> dict[str, Any]:
    """Return the answers of REST: budgets, plans, releases, jobs, keys, policies, and refusals."""
    from fastapi.testclient import TestClient

    found: dict[str, Any] = {}
    with (
        served(folder) as here,
        TestClient(here.parts.make_app(here.service), raise_server_exceptions=False) as client,
    ):
        owner = {"Authorization": f"Bearer {here.owner}"}

        def ask(
            name: str, method: str, path: str, suffix: str = "", headers: Any = None, **words: Any
        ) -> Any:
            answer = client.request(
                method, f"/v1{path}", headers=owner if headers is None else headers, **words
            )
            found[name] = _answer(answer, folder, suffix)
            return answer

        document = client.get("/v1/openapi.json").json()
        found["operations"] = sorted(
            f"{method.upper()} {path}:{','.join(sorted(of['responses']))}"
            for path, methods in document["paths"].items()
            for method, of in methods.items()
        )
        ask("me", "GET", "/me")
        for dataset, unit in {dataset: unit for dataset, unit, _, _ in SERVED.values()}.items():
            new = {"dataset": dataset, "epsilon": 60, "delta": 1e-4, "unit": unit, "neighbours": "replace"}
            ask(f"budget opened, {dataset}", "POST", "/budgets", json=new)
        for case, (dataset, _, file, asked) in SERVED.items():
            words = {
                "params": {"name": file, "asked": json.dumps(asked)},
                "content": (folder / file).read_bytes(),
            }
            ask(f"plan, {case}", "POST", f"/datasets/{dataset}/plan", **words)
            with_key = owner | {"Idempotency-Key": f"monday {case}"}
            path = f"/datasets/{dataset}/protect"
            answer = ask(f"protect, {case}", "POST", path, Path(file).suffix, with_key, **words)
            release = answer.headers.get("sfumato-release", "none")
            ask(f"release, {case}", "GET", f"/releases/{release}")
            signed = ask(f"certificate, {case}", "GET", f"/releases/{release}/certificate")
            if signed.status_code == 200:
                envelope = signed.json()
                payload = json.loads(base64.b64decode(envelope.pop("payload")))
                found[f"certificate, {case}"]["body"] = {"envelope": envelope, "payload": payload}
            if case == "array":
                query = {"name": file, "certificate": signed.text}
                ask("verify", "POST", "/verify", params=query, content=answer.content)
                ask("verify, altered", "POST", "/verify", params=query, content=words["content"])
                ask("content", "GET", f"/releases/{release}/content", Path(file).suffix)
                ask("report", "GET", f"/releases/{release}/report")
                ask("deleted", "DELETE", f"/releases/{release}")
        job = words | {
            "params": {"name": "x.npy", "asked": json.dumps(GAUSSIAN)},
            "content": (folder / "x.npy").read_bytes(),
        }
        queued = ask(
            "job", "POST", "/datasets/ward/jobs", headers=owner | {"Idempotency-Key": "a job"}, **job
        ).json()
        ask("job, again", "POST", "/datasets/ward/jobs", headers=owner | {"Idempotency-Key": "a job"}, **job)
        # It stores progress with every beat; without one, the stage that is read does not depend on the time.
        runner = here.parts.runner(here.service, lease=600.0, beat=60.0, tick=0.1, poll=0.05)
        runner.start()
        try:
            ended = _ended(lambda: client.get(f"/v1/jobs/{queued['id']}", headers=owner).json())
        finally:
            runner.stop(5.0)
        found["job, ended"] = ended | {"stage": None, "share": None}  # whichever was told last
        made = (ended.get("result") or {}).get("release", "none")
        ask("job, content", "GET", f"/releases/{made}/content", ".npy")
        cancelled = ask("job, second", "POST", "/datasets/ward/jobs", **job).json()
        ask("job, cancelled", "DELETE", f"/jobs/{cancelled['id']}")
        ask("jobs", "GET", "/jobs")
        ask("releases", "GET", "/releases")
        ask("budgets", "GET", "/budgets")
        ask("history", "GET", "/budgets/ward/history")
        key = ask(
            "key made", "POST", "/keys", json={"name": "robot", "role": "publisher", "scopes": ["plan"]}
        ).json()
        ask("keys", "GET", "/keys")
        ask("key revoked", "DELETE", f"/keys/{key['id']}")
        policy = {"rules": [{"readers": ["alice"], DISTRUST: 0.0}, {"readers": ["bob"], DISTRUST: 0.3}]}
        ask("policy", "GET", "/policy")
        ask("policy set", "PUT", "/policy", json={"policy": policy})
        for case, (dataset, file, asked) in UNSERVED.items():
            words = {
                "params": {"name": file, "asked": json.dumps(asked)},
                "content": (folder / file).read_bytes(),
            }
            for verb in ("plan", "protect"):
                ask(f"refused {verb}, {case}", "POST", f"/datasets/{dataset}/{verb}", **words)
        _refused_over_rest(ask, here, folder)
    return found


def _ended(look: Any) -> Any:
    until = time.monotonic() + 60.0
    while (now := look())["state"] not in ("done", "failed", "cancelled"):
        assert time.monotonic() < until, now
        time.sleep(0.02)
    return now


def _refused_over_rest(ask: Any, here: SimpleNamespace, folder: Path) -> None:
    """Ask for what no description can make right: other tenants' things, broken requests."""
    body = (folder / "x.npy").read_bytes()
    query = {"name": "x.npy", "asked": json.dumps(GAUSSIAN)}
    nobody, stranger = {"Authorization": "Bearer nonsense"}, {"Authorization": f"Bearer {here.stranger}"}
    new = {"dataset": "a", "epsilon": 1, "delta": 0}
    ask("refused, no key", "GET", "/budgets", headers={})
    ask("refused, wrong key", "GET", "/budgets", headers=nobody)
    ask("refused, another tenant's budget", "GET", "/budgets/ward", headers=stranger)
    ask(
        "refused, another tenant's dataset",
        "POST",
        "/datasets/ward/protect",
        params=query,
        content=body,
        headers=stranger,
    )
    ask("refused, unknown release", "GET", f"/releases/{'0' * 24}")
    ask("refused, unknown job", "GET", f"/jobs/{'0' * 24}")
    ask("refused, unknown path", "GET", "/nonsense")
    ask("refused, method", "DELETE", "/budgets")
    ask("refused, no JSON", "POST", "/budgets", content=b"nonsense")
    ask("refused, epsilon below 0", "POST", "/budgets", json=new | {"epsilon": -1})
    ask("refused, unknown field", "POST", "/budgets", json=new | {"nonsense": 1})
    ask("refused, unit", "POST", "/budgets", json=new | {"unit": "planet"})
    ask("refused, name of a dataset", "POST", "/budgets", json=new | {"dataset": "a b"})
    ask("refused, another budget", "POST", "/budgets", json=new | {"dataset": "ward"})
    ask("refused, no description", "POST", "/datasets/ward/protect", params={"name": "x.npy"}, content=body)
    ask(
        "refused, broken description",
        "POST",
        "/datasets/ward/protect",
        params=query | {"asked": "{"},
        content=body,
    )
    ask(
        "refused, unknown word",
        "POST",
        "/datasets/ward/protect",
        params=query | {"asked": '{"flag": 1}'},
        content=body,
    )
    ask("refused, no body", "POST", "/datasets/ward/protect", params=query, content=b"")
    ask("refused, too large", "POST", "/datasets/ward/protect", params=query, content=b"0" * (1 << 21))
    ask("refused, no array", "POST", "/datasets/ward/protect", params=query, content=b"nonsense")
    ask("refused, role", "POST", "/keys", json={"name": "a", "role": "king"})
    ask("refused, policy", "PUT", "/policy", json={"policy": {"rules": [{"readers": ["a"], DISTRUST: 2.0}]}})
    ask(
        "refused, policy's word",
        "PUT",
        "/policy",
        json={"policy": {"rules": [{"readers": ["a"], "tryst": 0.5}]}},
    )
    ask("refused, policy's version", "PUT", "/policy", json={"policy": {"rules": []}, "after": 99})
    reused = {"Authorization": f"Bearer {here.owner}", "Idempotency-Key": "monday array"}
    other = (folder / "budgets.npy").read_bytes()
    ask(
        "refused, other content",
        "POST",
        "/datasets/ward/protect",
        params=query,
        content=other,
        headers=reused,
    )
    ask("refused, bucket", "POST", "/proxies", json={"name": "b", "source": "file:///", "dataset": "ward"})


def proxy(folder: Path) -> dict[str, Any]:
    """Return what the storage proxy answers to readers of each tier, for an array, a table and a picture."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from fastapi.testclient import TestClient

    found: dict[str, Any] = {}
    (folder / "bucket").mkdir()
    with (
        _tags_of_files(),
        served(folder) as here,
        TestClient(here.parts.make_app(here.service), raise_server_exceptions=False) as client,
    ):
        for name in ("x.npy", "people.csv", "words.csv", "categories.npz", "a.png"):
            shutil.copy(folder / name, folder / "bucket" / name)
        owner = {"Authorization": f"Bearer {here.owner}"}

        def ask(name: str, method: str, path: str, **words: Any) -> Any:
            answer = client.request(method, f"/v1{path}", headers=owner, **words)
            found[name] = _answer(answer, folder)
            return answer.json()

        for dataset, unit in (("ward", "record"), ("album", "region(8)")):
            new = {"dataset": dataset, "epsilon": 60, "delta": 1e-4, "unit": unit, "neighbours": "replace"}
            ask(f"budget, {dataset}", "POST", "/budgets", json=new)
        rules = [{"readers": ["alice"], DISTRUST: 0.0}, {"readers": ["bob"], DISTRUST: 0.3}]
        ask("policy", "PUT", "/policy", json={"policy": {"rules": rules}})
        nested = {"epsilon": [1, 8], "delta": 1e-6}
        arrays = {
            "array": {"parameters": nested | {"clip": 1.0}},
            "table": {"parameters": nested, "columns": SCHEMA["columns"]},
        }
        pictures = {
            "picture": {"parameters": nested | {"unit": "region:8", "block": 4, "restore": "learned"}}
        }
        bucket = {"source": f"file://{folder / 'bucket'}", "tiers": [0, 0.5, 1], "public_names": True}
        for name, dataset, files, pair in (
            ("files", "ward", arrays, "d4"),
            ("photos", "album", pictures, "e5"),
        ):
            declared = bucket | {"name": name, "dataset": dataset, "files": files}
            with _identifiers(pair):
                ask(f"bucket, {name}", "POST", "/proxies", json=declared)
        ask("buckets", "GET", "/proxies")
        for reader in ("alice", "bob", "carol"):
            key = client.post(
                "/v1/keys", headers=owner, json={"name": "r", "role": "auditor", "reader": reader}
            ).json()
            access = client.post(f"/v1/keys/{key['id']}/s3", headers=owner).json()
            credentials = Credentials(access["access_key_id"], access["secret_access_key"])
            told = client.get("/v1/proxies/files/tier", headers={"Authorization": f"Bearer {key['token']}"})
            found[f"{reader}, tier"] = _answer(told, folder)
            for path in (
                "/files/x.npy",
                "/files/people.csv",
                "/photos/a.png",
                "/files/none.npy",
                "/nowhere/x.npy",
            ):
                asked = AWSRequest(method="GET", url=f"http://testserver/s3{path}", headers={})
                S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(asked)
                answer = client.get(f"/s3{path}", headers=dict(asked.headers.items()))
                suffix = Path(path).suffix if answer.status_code == 200 else ""
                found[f"{reader}, {path}"] = _answer(answer, folder, suffix)
                if answer.status_code != 200:
                    root = ElementTree.fromstring(answer.content)
                    found[f"{reader}, {path}"]["body"] = {
                        "code": root.findtext("Code"),
                        "message": root.findtext("Message"),
                    }
        for dataset in ("ward", "album"):
            ask(f"history, {dataset}", "GET", f"/budgets/{dataset}/history")
        ask("reader said", "PUT", "/readers/alice", json={"authorisations": ["study"], "jurisdiction": "CH"})
        ask("readers", "GET", "/readers")
        ask("bucket removed", "DELETE", "/proxies/files")
    return found


@contextlib.contextmanager
def _tags_of_files() -> Iterator[None]:
    """Let local files have tags, as objects in S3 do: without them, their inodes enter the noise."""
    from fsspec.implementations.local import LocalFileSystem

    plain = LocalFileSystem.info

    def tagged(self: Any, path: Any, **words: Any) -> dict[str, Any]:
        return plain(self, path, **words) | {"ETag": "a tag"}

    with mock.patch.object(LocalFileSystem, "info", tagged):
        yield


def grpc(folder: Path) -> dict[str, Any]:
    """Return the answers of gRPC to what REST is asked, and the codes of its refusals."""
    import grpc as g
    from google.protobuf.json_format import MessageToDict

    found: dict[str, Any] = {}

    def document(message: Any) -> Any:
        plain = MessageToDict(message, preserving_proto_field_name=True)
        return {
            name: json.loads(value) if name == "json" or name.endswith("_json") else value
            for name, value in plain.items()
        }

    with served(folder) as here, _listening(here) as port, g.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub, pb = here.parts.stub(channel), here.parts.pb
        owner = (("authorization", f"Bearer {here.owner}"),)
        found["operations"] = sorted(pb.DESCRIPTOR.services_by_name["Sfumato"].methods_by_name)

        def ask(name: str, call: Any, message: Any, suffix: str = "", metadata: Any = owner) -> Any:
            try:
                answer = call(message, metadata=metadata)
                if not hasattr(answer, "DESCRIPTOR"):
                    answer = list(answer)
            except g.RpcError as error:
                word = dict(error.trailing_metadata()).get("sfumato-refusal")
                found[name] = {"code": error.code().name, "refusal": word, "detail": error.details()}
                return None
            if suffix:
                file = folder / f"answered{suffix}"
                file.write_bytes(b"".join(part.chunk for part in answer[1:]))
                found[name] = {"first": document(answer[0].release), "file": read_released(file)}
            else:
                found[name] = (
                    [document(one) for one in answer] if isinstance(answer, list) else document(answer)
                )
            return answer

        def parts(dataset: str, file: str, asked: dict[str, Any]) -> Iterator[Any]:
            given = {name: _parameter(pb, value) for name, value in asked.get("parameters", {}).items()}
            description = pb.Description(
                mechanism=asked.get("mechanism"), parameters=given, array=asked.get("array")
            )
            if "columns" in asked:
                description.columns_json = json.dumps(asked["columns"])
            yield pb.FilePart(file=pb.AskedFile(dataset=dataset, name=file, asked=description))
            yield pb.FilePart(chunk=(folder / file).read_bytes())

        ask("me", stub.Me, pb.MeRequest())
        for dataset, unit in {dataset: unit for dataset, unit, _, _ in SERVED.values()}.items():
            new = pb.NewBudget(dataset=dataset, epsilon=60, delta=1e-4, unit=unit, neighbours="replace")
            ask(f"budget opened, {dataset}", stub.OpenBudget, new)
        for case, (dataset, _, file, asked) in SERVED.items():
            ask(f"plan, {case}", stub.Plan, parts(dataset, file, asked))
            again = (*owner, ("idempotency-key", f"monday {case}"))
            answer = ask(
                f"protect, {case}", stub.Protect, parts(dataset, file, asked), Path(file).suffix, again
            )
            if case == "array" and answer:
                one = pb.ReleaseRequest(id=answer[0].release.id)
                ask("release", stub.GetRelease, one)
                ask("content", stub.GetContent, one, Path(file).suffix)
                ask("deleted", stub.DeleteRelease, one)
        job = ask("job", stub.Submit, parts("ward", "x.npy", GAUSSIAN))
        ask("job, cancelled", stub.CancelJob, pb.JobRequest(id=job.id))
        ask("jobs", stub.ListJobs, pb.ListJobsRequest())
        ask("budgets", stub.ListBudgets, pb.ListBudgetsRequest())
        ask("budget", stub.GetBudget, pb.DatasetRequest(dataset="ward"))
        ask("history", stub.ListHistory, pb.DatasetRequest(dataset="ward"))
        ask("releases", stub.ListReleases, pb.ListReleasesRequest())
        ask("keys", stub.ListKeys, pb.ListKeysRequest())
        policy = {"rules": [{"readers": ["alice"], DISTRUST: 0.0}]}
        ask("policy set", stub.SetPolicy, pb.NewPolicy(policy_json=json.dumps(policy)))
        ask("policy", stub.GetPolicy, pb.GetPolicyRequest())
        for case, (dataset, file, asked) in UNSERVED.items():
            ask(f"refused plan, {case}", stub.Plan, parts(dataset, file, asked))
            ask(f"refused protect, {case}", stub.Protect, parts(dataset, file, asked))
        nobody, stranger = (
            (("authorization", "Bearer nonsense"),),
            (("authorization", f"Bearer {here.stranger}"),),
        )
        ask("refused, no key", stub.Me, pb.MeRequest(), metadata=())
        ask("refused, wrong key", stub.Me, pb.MeRequest(), metadata=nobody)
        ask(
            "refused, another tenant's budget",
            stub.GetBudget,
            pb.DatasetRequest(dataset="ward"),
            metadata=stranger,
        )
        ask("refused, unknown release", stub.GetRelease, pb.ReleaseRequest(id="0" * 24))
        ask("refused, unknown job", stub.GetJob, pb.JobRequest(id="0" * 24))
        ask("refused, epsilon below 0", stub.OpenBudget, pb.NewBudget(dataset="a", epsilon=-1))
        ask("refused, another budget", stub.OpenBudget, pb.NewBudget(dataset="ward", epsilon=1))
        ask("refused, role", stub.MakeKey, pb.NewKey(name="a", role="king"))
        wrong = json.dumps({"rules": [{"readers": ["a"], DISTRUST: 2.0}]})
        ask("refused, policy", stub.SetPolicy, pb.NewPolicy(policy_json=wrong))
        ask("refused, no file", stub.Protect, iter([pb.FilePart(chunk=b"x")]))
    return found


def _parameter(pb: Any, value: Any) -> Any:
    kinds = {bool: "flag", int: "whole", float: "number", str: "word"}
    if isinstance(value, list):
        return pb.Parameter(numbers=pb.Numbers(numbers=value))
    return pb.Parameter(**{kinds[type(value)]: value})


@contextlib.contextmanager
def _listening(here: SimpleNamespace) -> Iterator[int]:
    """Answer gRPC on a free port of the loopback, in a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def started() -> Any:
        server = here.parts.make_server(here.service, "127.0.0.1:0")
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


GROUPS = {
    "commands": commands,
    "command_plans": command_plans,
    "command_refusals": command_refusals,
    "trained": trained,
    "rest": rest,
    "proxy": proxy,
    "grpc": grpc,
}
