"""Defaults stand in one module: no signature has one of its own, and a change reaches every door."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sfumato
import sfumato as sf
from sfumato.errors import BadInput
from sfumato.privacy.defaults import DELTA

SOURCES = Path(sfumato.__file__).parent

# What every door takes where nothing is given: Python, the command line, REST.
DOORS = """
import inspect, io, contextlib, json
import sfumato as sf
from sfumato.cli import main
from sfumato.ledger import Ledger
from sfumato.learners import CertifiedCompact, PrivateSoftmax, fit_private
from sfumato.learners.federated.protections import make_protection
from sfumato.mechanisms.tiers import TrustTier
from sfumato.media.images import PlaneMeans, SpectralLaplace
from sfumato.release.federation import Federation
from sfumato.publishers import CertifiedPublisher
from sfumato.serve.service import NewBudget

def of(thing, name):
    return inspect.signature(thing).parameters[name].default

kinds = (sf.Gaussian, sf.TrustAdaptive, TrustTier, sf.TensorLDP, SpectralLaplace, PrivateSoftmax)
kinds += (CertifiedCompact, CertifiedPublisher, make_protection)
found = {kind.__name__: of(kind, "delta") for kind in kinds}
for command in ("protect", "learn", "publish", "federate"):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([command, "--help"])
    found[command] = text.getvalue()
found["budget"] = [str(of(Ledger.open, "neighbours")), of(Ledger.open, "unit")]
found["rest"] = [NewBudget.model_fields["neighbours"].default, NewBudget.model_fields["unit"].default]
found["records"] = of(sf.Gaussian, "neighbours")
found["models"] = of(PrivateSoftmax, "neighbours")
found["images"] = of(PlaneMeans, "unit")
found["federated"] = Federation.__dataclass_fields__["neighbours"].default
print(json.dumps(found))
"""


def doors(sources):
    environment = os.environ | {"PYTHONPATH": str(sources), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", DOORS], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_one_change_reaches_every_door(tmp_path):
    project = SOURCES.parent.parent
    for folder in ("src/sfumato", "tools", "docs"):
        shutil.copytree(project / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.png"))
    shutil.copy(project / "pyproject.toml", tmp_path)
    module = tmp_path / "src" / "sfumato" / "privacy" / "defaults.py"
    text = module.read_text()
    for before, after in (
        ("DELTA = 1e-6", "DELTA = 3e-8"),
        ('RECORDS = Kind("replace", "record")', 'RECORDS = Kind("zero-out", "person")'),
        ('MODELS = Kind("zero-out", "record")', 'MODELS = Kind("replace", "record")'),
        ('IMAGES = Kind("replace", "region(16)")', 'IMAGES = Kind("replace", "region(8)")'),
        ('FEDERATED = Kind("replace", "client")', 'FEDERATED = Kind("zero-out", "client")'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    module.write_text(text)
    # What help and schemas say is generated from the declarations.
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    subprocess.run([sys.executable, tmp_path / "tools" / "make_index.py"], env=environment, check=True)
    found = doors(tmp_path / "src")
    commands = [found.pop(name) for name in ("protect", "learn", "publish", "federate")]
    assert ["3e-08" in text for text in commands] == [True] * 4
    assert found.pop("budget") == found.pop("rest") == ["zero-out", "person"]
    assert (found.pop("records"), found.pop("models")) == ("zero-out", "replace")
    assert (found.pop("images"), found.pop("federated")) == ("region(8)", "zero-out")
    assert found
    assert set(found.values()) == {3e-8}


def test_epsilon_has_no_default():
    own = [
        f"{path.name}: {ast.unparse(default)}"
        for path in SOURCES.rglob("*.py")
        if "papers" not in path.parts
        for name, default in _defaults(ast.parse(path.read_text("utf-8")))
        if name == "epsilon" and ast.unparse(default) not in ("REQUIRED", "None")
    ]
    assert own == ["service.py: Field(gt=0, le=1000000.0)"]  # limits of a field that REST requires
    for mechanism in (sf.Gaussian(clip=1.0), sf.Laplace(clip=1.0), sf.TrustAdaptive(clip=1.0), sf.Duchi()):
        with pytest.raises(BadInput, match=r"`epsilon` must be .*, not None"):
            mechanism.statement()
        with pytest.raises(BadInput, match=r"`epsilon` must be .*, not None"):
            mechanism.release(np.zeros((2, 3)))


def test_no_signature_has_a_default_of_its_own():
    """δ = 0 says that none is needed, and a paper's method keeps the unit and the relation of its paper."""
    paper = {"image_baselines.py", "selective_noise.py", "tensor_ldp.py", "central_noise.py"}
    own = [
        f"{path.name}: {name} = {ast.unparse(default)}"
        for path in SOURCES.rglob("*.py")
        if "papers" not in path.parts and path.name not in paper
        for name, default in _defaults(ast.parse(path.read_text("utf-8")))
        if (name == "delta" and isinstance(default, ast.Constant) and default.value not in (None, 0.0))
        or (
            name in ("unit", "neighbours")
            and isinstance(default, ast.Constant)
            and isinstance(default.value, str)
        )
    ]
    assert sorted(own) == _OTHER_SUBJECTS
    assert DELTA == 1e-6


# Of audits and of correlated frames, where unit and neighbours are of a game or a theorem and of no release.
_OTHER_SUBJECTS = [
    "composition.py: unit = 'frame'",
    "composition.py: unit = 'frame'",
    "distinguishing_game.py: unit = 'record'",
    "noise_defects.py: unit = 'record'",
]


def _defaults(tree):
    """Every parameter and field of a class with its default."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = node.args
            plain = [*given.posonlyargs, *given.args]
            yield from zip(
                (a.arg for a in plain[len(plain) - len(given.defaults) :]), given.defaults, strict=True
            )
            yield from (
                (a.arg, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None
            )
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
