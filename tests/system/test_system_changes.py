"""The changes that CONTRIBUTING.md lists: each works in a copy of the tree, in the files that are named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE, PAPERS = "src/sfumato", "reproductions/src/sfumato_reproductions"


@dataclass(frozen=True)
class Change:
    """``edits``: by file, a new text, or pairs of what stands there and what comes in its place."""

    edits: dict[str, str | tuple[str, str] | list[tuple[str, str]]]
    check: str
    needs: str = "numpy"
    index: bool = False


MECHANISM = '''"""A toy mechanism: Gaussian noise under another name.

**Guarantee.** That of the Gaussian mechanism.
"""

from sfumato.mechanisms.additive import Gaussian

__all__ = ["Veil"]


class Veil(Gaussian):
    """Gaussian noise, to see where a mechanism appears.

    **Guarantee.** That of the Gaussian mechanism.
    """

    kinds = ("array", "table")
    units = ("record",)
'''
LEARNER = '''"""A toy learner: linear training under another name."""

from sfumato.learners.private_softmax import PrivateSoftmax


class Short(PrivateSoftmax):
    """Linear training, to see where a learner appears."""
'''
ATTACK = '''"""A toy attack: how often the first column keeps its sign."""

import numpy as np

from sfumato.audits.findings import Finding


def sign_attack(records, released):
    """Return how often the sign of the first column survived."""
    kept = float(np.mean(np.sign(records[:, 0]) == np.sign(released[:, 0])))
    return Finding("sign of the first column", "knows the release alone", "share", kept, 0.5)
'''
TABLE = '''"""A toy table."""


def toy_table(sources, report):
    """Return why there is no such table."""
    return "the paper has no table 9"
'''
KIND = '''"""A toy kind of release: the noisy mean of every column of an array."""

from pathlib import Path

import numpy as np

from sfumato.io import open_array, write_whole
from sfumato.mechanisms import Gaussian
from sfumato.release.path import Kind, Protected, release
from sfumato.release.path import Payment, Spending
from sfumato.reports import certificate_file

__all__ = ["release_means"]


class Means(Kind[Spending]):
    """The means of clipped records, with the noise of one record: more than a mean needs."""

    def __init__(self, source, output, mechanism):
        self._source, self._mechanism = open_array(source), mechanism
        self.output, self.name = Path(output), Path(output).name
        self.price = mechanism.statement(self._source.shape[1])

    def check(self, content, report):
        rows = np.concatenate(list(self._source.blocks(1 << 20)))
        self._mechanism.check(rows)
        longest = np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / self._mechanism.clip)
        self._mean = (rows / longest).mean(axis=0, keepdims=True)

    def draw(self, pay, report):
        pay()
        self._drawn = self._mechanism.perturb(self._mean)

    def write(self, certify, report):
        text = ",".join(str(value) for value in self._drawn[0])
        write_whole(self.output, text.encode(), first=(certificate_file(self.output), certify))

    def released(self):
        return Protected(self.output, self.price, 1, self._drawn.shape[1], ())


def release_means(source, output, *, epsilon, clip, dataset=None, ledger=None):
    """Release the means of the columns of ``source``."""
    kind = Means(source, output, Gaussian(epsilon, clip=clip))
    return release(kind, Payment(dataset, ledger))
'''
COMMAND = '''@app.command()
def means(source: str, output: str, epsilon: float, clip: float, dataset: str, ledger: str) -> None:
    """Release the means of columns."""
    from sfumato.ledger import Ledger
    from sfumato.release import release_means

    with Ledger(ledger) as book:
        terminal.show(
            release_means(source, output, epsilon=epsilon, clip=clip, dataset=dataset, ledger=book), False
        )


'''
CHANGES = {
    "a mechanism": Change(
        {f"{SOURCE}/mechanisms/veil.py": MECHANISM},
        """
import sfumato as sf
assert sf.mechanism("veil", epsilon=1.0, clip=1.0).guarantee().epsilon() <= 1.0
assert sf.Veil and "Veil" in dir(sf)
from sfumato.cli import main
import numpy as np
np.save("x.npy", np.zeros((5, 2)))
main(["plan", "x.npy", "--mechanism", "veil", "--epsilon", "1", "--clip", "1"])
""",
        index=True,
    ),
    "a media unit": Change(
        {
            f"{SOURCE}/privacy/unit.py": (
                '    "frame": UnitKind("video"),\n',
                '    "frame": UnitKind("video"),\n'
                '    "strip": UnitKind("picture", "how many rows", "m", 8, "any strip of {0} rows"),\n',
            ),
            f"{SOURCE}/media/images/image_mechanism.py": (
                '    "item": lambda size, height, width: Footprint(height, width),\n',
                '    "item": lambda size, height, width: Footprint(height, width),\n'
                '    "strip": lambda size, height, width: Footprint(min(size, height), width),\n',
            ),
        },
        """
import numpy as np, sfumato as sf
from PIL import Image
Image.fromarray(np.full((32, 32, 3), 99, dtype=np.uint8)).save("a.png")
made = sf.PlaneMeans(epsilon=4.0, unit="strip(8)")
assert sf.plan("a.png", made).statement.proven.unit == sf.Unit("strip", 8)
assert made.shaped((32, 32)).proven(sf.Unit("region", 8), (32, 32, 1)).epsilon() <= 4.0

from sfumato.mechanisms import options_at
for door in ("command line", "service"):
    assert any("strip:8" in one.help for one in options_at(door)["unit"])

from sfumato.serve.service import Description
asked = Description(parameters={"epsilon": 4.0, "unit": "strip:8"}).request()
assert str(asked.make_mechanism("picture").picture.unit) == "strip(8)"
try:
    asked.make_mechanism("sound", "a.wav")
    raise SystemExit("it was not refused")
except sf.BadInput as error:
    assert "is one of pictures" in str(error)

from sfumato.cli import main
main(["protect", "a.png", "-o", "out.png", "--unit", "strip:8", "--epsilon", "4"])
""",
        needs="cv2",
        index=True,
    ),
    "an option of `protect` at every door": Change(
        {
            f"{SOURCE}/release/request.py": [
                (
                    "PARAMETERS: Mapping[str, Parameter] = {\n",
                    "PARAMETERS: Mapping[str, Parameter] = {\n"
                    '    "part": Parameter("Part of ε that this release takes.", type=float, name="part"),\n',
                ),
                (
                    '        given["epsilon"] = [given["epsilon"]]\n',
                    '        given["epsilon"] = [given["epsilon"]]\n    part = given.pop("part", 1.0)\n'
                    '    if "epsilon" in given:\n'
                    '        given["epsilon"] = [part * one for one in given["epsilon"]]\n',
                ),
            ]
        },
        """
import numpy as np, sfumato as sf
np.save("x.npy", np.zeros((5, 2)))
given = {"epsilon": 2.0, "clip": 1.0, "part": 0.5}

from sfumato.release import ReleaseRequest
assert sf.plan("x.npy", ReleaseRequest(None, given)).statement.proven.epsilon() <= 1.0

from sfumato.serve.service import Description, parameter_schema
assert "takes" in parameter_schema()["part"]["description"]
assert Description(parameters=given).request().make_mechanism("array").epsilon == 1.0

from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.servicer import request_of
sent = pb.Description(parameters={name: pb.Parameter(number=value) for name, value in given.items()})
assert request_of(sent).make_mechanism("array").epsilon == 1.0

from sfumato.serve.pages.release_pages import other_fields
assert other_fields()["parameter-part"][0] == "part"

from sfumato.cli import main
import contextlib, io, json
with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
    main(["plan", "x.npy", "--epsilon", "2", "--clip", "1", "--part", "0.5", "--json"])
assert json.loads(printed.getvalue())["epsilon_of_group"]["1"] <= 1.0
""",
        needs="fastapi",
        index=True,
    ),
    "a kind of release": Change(
        {
            f"{SOURCE}/release/column_means.py": KIND,
            f"{SOURCE}/cli/command_line.py": (
                "def _version(wanted: bool) -> None:\n",
                COMMAND + "def _version(wanted: bool) -> None:\n",
            ),
        },
        """
import numpy as np, sfumato as sf
np.save("x.npy", np.ones((50, 3)))
with sf.Ledger("sqlite:///budget.db") as ledger:
    ledger.open("ward", 2.0, 1e-5)
    from sfumato.release import release_means
    done = release_means("x.npy", "means.txt", epsilon=1.0, clip=1.0, dataset="ward", ledger=ledger)
    assert done.paid["number"] == 2 and done.dataset == "ward"
    assert sf.verify("means.txt", ledger=ledger).holds
    try:
        release_means("x.npy", "more.txt", epsilon=5.0, clip=1.0, dataset="ward", ledger=ledger)
        raise SystemExit("it was not refused")
    except sf.SfumatoError as error:
        assert error.exit_code == 3
from pathlib import Path
assert not Path("more.txt").exists()
from sfumato.cli import main
main(["means", "x.npy", "other.txt", "0.5", "1.0", "ward", "sqlite:///budget.db"])
""",
        index=True,
    ),
    "a file format": Change(
        {
            f"{SOURCE}/io/formats.py": (
                '    ".jpeg": "JPEG",\n',
                '    ".jpeg": "JPEG",\n    ".jfif": "JPEG",\n',
            )
        },
        """
import numpy as np, sfumato as sf
from sfumato.io import write_picture
from PIL import Image
Image.fromarray(np.full((16, 16, 3), 99, dtype=np.uint8)).save("a.jpg")
import os; os.rename("a.jpg", "a.jfif")
sf.protect("a.jfif", "out.jfif", sf.PlaneMeans(epsilon=4.0, unit="region(4)"))
assert sf.verify("out.jfif").holds
""",
        needs="cv2",
    ),
    "an attack": Change(
        {
            f"{SOURCE}/audits/sign_attack.py": ATTACK,
            f"{SOURCE}/audits/release_audit.py": (
                '    steps("inferring the label")\n',
                "    from sfumato.audits.sign_attack import sign_attack\n\n"
                '    findings.append(sign_attack(clipped, released))\n    steps("inferring the label")\n',
            ),
        },
        """
import numpy as np, sfumato as sf
X = np.random.default_rng(0).normal(size=(200, 2))
found = sf.audit(sf.Gaussian(1.0, clip=1.0).release(X), original=X)
assert "sign of the first column" in [item.attack for item in found.findings]
""",
    ),
    "the default δ": Change(
        {f"{SOURCE}/privacy/defaults.py": ("\nDELTA = 1e-6\n", "\nDELTA = 1e-7\n")},
        """
import sfumato as sf
assert sf.Gaussian(1.0, clip=1.0).guarantee().at_delta == 1e-7
assert sf.TrustAdaptive(0.4, epsilon=(1.0, 8.0), clip=1.0).guarantee().at_delta == 1e-7
from sfumato.cli import main
main(["learn", "--help"])
""",
    ),
    "a ledger backend": Change(
        {
            f"{SOURCE}/ledger/database.py": (
                '    "sqlite": "sqlite+pysqlite",\n',
                '    "sqlite": "sqlite+pysqlite",\n    "sqlite+other": "sqlite+pysqlite",\n',
            )
        },
        """
import sfumato as sf
with sf.Ledger("sqlite+other:///budget.db") as ledger:
    ledger.open("ward", 1.0, 1e-6)
    ledger.spend("ward", sf.Gaussian(0.5, 1e-6, clip=1.0).guarantee())
    assert ledger.balance("ward").spends == 1
""",
    ),
    "a table of a paper": Change(
        {
            f"{PAPERS}/multimedia_dp/toy_table.py": TABLE,
            f"{PAPERS}/multimedia_dp/parts.py": (
                '    return {\n        "table 1": category_table,\n',
                "    from sfumato_reproductions.multimedia_dp.toy_table import toy_table\n\n"
                '    return {\n        "table 9": toy_table,\n        "table 1": category_table,\n',
            ),
        },
        """
from sfumato_reproductions.multimedia_dp.parts import _makers
assert _makers()["table 9"](None, None) == "the paper has no table 9"
""",
        needs="cv2",
    ),
    "a learner": Change(
        {
            f"{SOURCE}/learners/short_training.py": LEARNER,
            f"{SOURCE}/release/catalogue.py": (
                '        "dp-sgd": ("learners.private_softmax", "PrivateSoftmax"),\n',
                '        "dp-sgd": ("learners.private_softmax", "PrivateSoftmax"),\n'
                '        "short": ("learners.short_training", "Short"),\n',
            ),
        },
        """
import numpy as np, sfumato as sf
np.savez("own.npz", x=np.random.default_rng(0).normal(size=(90, 4)), y=np.arange(90) % 3)
given = dict(method="short", epsilon=4.0, classes=3, reach=4.0, steps=3, audit=False, pictures="x")
assert sf.learn("own.npz", plan=True, **given).statement.mechanism == "Short"
sf.learn("own.npz", "model", **given)
assert len(sf.load_model("model").predict(np.zeros((2, 4)))) == 2
""",
        needs="torch",
    ),
    "an S3 feature": Change(
        {
            f"{SOURCE}/serve/proxy/s3_app.py": (
                '        "Accept-Ranges": "bytes",\n',
                '        "Accept-Ranges": "bytes",\n        "x-amz-storage-class": "STANDARD",\n',
            )
        },
        """
from datetime import UTC, datetime
from sfumato.serve.proxy.s3_app import about
assert about("e", datetime.now(UTC), {})["x-amz-storage-class"] == "STANDARD"
""",
        needs="fastapi",
    ),
    "a message": Change(
        {
            f"{SOURCE}/io/formats.py": (
                "has none of the supported suffixes",
                "ends in none of the supported suffixes",
            )
        },
        """
from pathlib import Path
import sfumato as sf
Path("x.odd").write_bytes(b"odd")
try:
    sf.plan("x.odd", sf.Gaussian(1.0, clip=1.0))
    raise SystemExit("it was not refused")
except sf.BadInput as error:
    assert "ends in none of the supported suffixes" in str(error)
""",
    ),
}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    for folder in (SOURCE, PAPERS, "tools", "docs"):
        # With its bytecode, which what is edited here makes anew.
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.png"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setenv("SFUMATO_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_works_in_the_files_it_names(copy, name):
    change = CHANGES[name]
    pytest.importorskip(change.needs)
    for file, edit in change.edits.items():
        place = copy / file
        if isinstance(edit, str):
            assert not place.exists()
            place.write_text(edit, encoding="utf-8")
        else:
            text = place.read_text(encoding="utf-8")
            for old, new in [edit] if isinstance(edit, tuple) else edit:
                assert text.count(old) == 1, f"{file} no longer says {old!r} once"
                text = text.replace(old, new)
            place.write_text(text, encoding="utf-8")
    paths = os.pathsep.join(str(copy / Path(folder).parent) for folder in (SOURCE, PAPERS))
    env = os.environ | {"PYTHONPATH": paths}
    commands = [[sys.executable, "tools/make_index.py"]] if change.index else []
    work = copy / "work"
    work.mkdir()
    for command, place in [
        *((one, copy) for one in commands),
        ([sys.executable, "-W", "ignore", "-c", change.check], work),
    ]:
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_names_the_files_of_each_change():
    """Names in angle brackets stand for the new file."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (an? .+?|the .+?) \| (.+?) \|", page, re.MULTILINE))
    assert set(rows) == set(CHANGES)
    assert len(rows) == 12
    for name, change in CHANGES.items():
        named = re.findall(r"`([^`]+)`", rows[name])
        patterns = [
            re.sub(r"<[^>]*>", "[a-z_]+", re.escape(one).replace("\\<", "<").replace("\\>", ">"))
            for one in named
        ]
        short = [file.removeprefix(f"{SOURCE}/").replace(PAPERS, "reproductions") for file in change.edits]
        assert len(short) == len(named), name
        for file in short:
            assert any(re.fullmatch(pattern, file) for pattern in patterns), (
                f"{name}: {file} is not in {named}"
            )
