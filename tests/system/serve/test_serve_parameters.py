"""Every mechanism with parameters that nobody means: what is refused is refused in a sentence and unpaid."""

import inspect
import math
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import small_media

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import kind_of
from sfumato.mechanisms import MECHANISMS, TensorMechanism
from sfumato.media.audio import SoundMechanism
from sfumato.media.images import PictureMechanism
from sfumato.release import ReleaseRequest, plan
from sfumato.serve import Service, Settings
from sfumato.serve.proxy.buckets import FileTerms, NewBucket
from sfumato.serve.reader_tiers import KINDS

NASTY = (
    *("", "x", True, None, 0, -1, math.nan, math.inf, 5e-324, 1e308, 2**70, 10**400),
    *([], [0, 0], [10**400, math.nan], ["a"], {}, {"a": 1}, "region(99999999)", "window(1e99)"),
)
# With these, ranges that are fine by themselves meet in what is drawn.
FAR = (1e-100, 1e100, 2**31)
UNITS = ("record", "component", "tensor", "region(16)", "pixels(1)", "pixels(16)", "window(20)", "item")
COLUMNS = {
    "columns": {
        "age": {"kind": "numeric", "bounds": [0, 120]},
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
    }
}
NAMES = {"array": "x.npz", "tensor": "t.npz", "table": "x.csv", "picture": "x.png", "sound": "x.wav"}
NAMES |= {"video": "x.mp4"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One small file of each kind."""
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(0)
    np.savez(folder / "x.npz", X=random.uniform(-0.5, 0.5, size=(6, 3)))
    np.savez(folder / "t.npz", X=random.uniform(-0.5, 0.5, size=(2, 3, 3)))
    (folder / "x.csv").write_text("age,sex\n30,f\n40,m\n")
    small_media.png(folder / "x.png", small_media.photograph(10, 12))
    small_media.sound(folder / "x.wav", small_media.tone(0.05))
    small_media.video(folder / "x.mp4", frames=2, sides=(16, 16))
    return {kind: folder / name for kind, name in NAMES.items()}


class Trial:
    """A service with a budget of every unit, the key of its owner, and what came of all that was tried."""

    def __init__(self, folder):
        settings = Settings(folder / "service", sources=(f"clinic=file://{folder}",))
        self.service, self.ledger = Service(settings), settings.ledger_url.removeprefix("sqlite:///")
        tenant = self.service.registry.create_tenant("clinic")
        token = self.service.registry.create_key(tenant.id, name="owner", role="owner")[1]
        self.owner = self.service.registry.authenticate(token)
        self.source, self.datasets, self.found = f"file://{folder}", {}, Counter()
        self.refused = []
        for number, unit in enumerate(UNITS):
            name = self.datasets[unit] = f"of-{number}"
            self.service.open_budget(self.owner, name, epsilon=1e9, delta=0.1, unit=unit)

    def spent(self):
        """What stands in the accounts, by raw SQL: what is left of each would take longer than all trials."""
        with closing(sqlite3.connect(self.ledger)) as ledger:
            return ledger.execute("SELECT dataset, spent, spends, holds FROM accounts").fetchall()

    def tried(self, what, work, *arguments):
        """Do ``work``, which ends well or in a refusal that cost nothing."""
        before, refused = self.spent(), None
        try:
            work(*arguments)
        except SfumatoError as error:
            refused = str(error)
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        self.found["done" if refused is None else "refused"] += 1
        if refused is not None:
            assert refused.endswith((".", "?")), (what, refused)
            assert self.spent() == before, (what, refused)

    def dataset(self, asked, file):
        """The dataset whose budget pays for what is asked; any where nothing is proven."""
        stated = plan(file, asked.make_mechanism(kind_of(file)), schema=asked.declared()).statement
        units = [str(part.unit) for part in (stated.proven, *stated.also_proven)]
        return next((self.datasets[unit] for unit in units if unit in self.datasets), "of-0")

    def job(self, asked, file, dataset):
        """Submit a copy, which is moved away, and cancel it."""
        with self.service.folder() as folder:
            copy = shutil.copy(file, folder / file.name)
            job = self.service.submit(self.owner, asked, copy, dataset)
        self.service.cancel(self.owner, job.id)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    made = Trial(tmp_path_factory.mktemp("trial"))
    yield made
    made.service.close()


def usual(name, kind):
    """Parameters with which a mechanism releases a file of ``kind``."""
    takes = [one for one in inspect.signature(MECHANISMS[name]).parameters if one != "randomness"]
    given = {"epsilon": [1, 8] if name == "trust-adaptive" else 1} if "epsilon" in takes else {}
    if kind in ("array", "tensor") and name != "binary-encoding":
        given |= {"clip": 1.0} if "clip" in takes else {"bounds": [-1, 1]} if "bounds" in takes else {}
    if name == "content-adaptive":
        given |= {"map": "private", "detectors": "saliency", "tile": 8}
    return given, takes


def kinds_of(name):
    kind = MECHANISMS[name]
    if issubclass(kind, PictureMechanism):
        return ["picture", "video"] if name == "plane-means" else ["picture"]
    if issubclass(kind, SoundMechanism):
        return ["sound"]
    tables = ["table"] if name in ("gaussian", "laplace", "trust-adaptive") else []
    return ["array", *tables, *(["tensor"] if issubclass(kind, TensorMechanism) else [])]


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_no_parameter_breaks_the_service_or_is_paid_for_in_vain(trial, files, name):
    number = 0
    for kind in kinds_of(name):
        given, takes = usual(name, kind)
        schema, file = COLUMNS if kind == "table" else None, files[kind]
        dataset = trial.dataset(ReleaseRequest(name, given, schema), file)
        cases = [given | {option: value} for option in takes for value in (*NASTY, *FAR)]
        if "delta" in takes:
            cases += [given | {"delta": 1e-6, option: value} for option in takes for value in NASTY[8:12]]
        if kind == "video":
            cases = [case | {"unit": "item"} for case in cases[::3]]
        for case in cases:
            what, number = f"{name}, {kind}, {str(case)[:200]}", number + 1
            try:
                asked = ReleaseRequest(name, case, schema)
            except BadInput as error:
                trial.refused.append(str(error))
                continue
            trial.tried(f"protect {what}", trial.service.protect, trial.owner, asked, file, dataset)
            if number % 4 == 0:
                trial.tried(f"plan {what}", trial.service.plan, trial.owner, asked, file, dataset)
            if number % 4 == 2:
                trial.tried(f"job {what}", trial.job, asked, file, dataset)
    assert trial.found["refused"]
    assert all(sentence.endswith(".") for sentence in trial.refused)


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_parameter_breaks_the_declaration_of_a_bucket(trial, kind):
    given = {"epsilon": [1, 8]} | ({"clip": 1.0} if kind == "array" else {})
    dataset = trial.datasets["region(16)" if kind == "picture" else "record"]
    for more in ({}, {"delta": 1e-6}):
        for number, (option, value) in enumerate((o, v) for o in KINDS[kind] for v in (*NASTY, *FAR)):
            terms = FileTerms.model_construct(
                parameters=given | more | {option: value},
                columns=COLUMNS["columns"] if kind == "table" else None,
                array=None,
            )
            new = NewBucket.model_construct(
                name=f"b-{kind}-{len(more)}-{number}",
                source=trial.source,
                dataset=dataset,
                tiers=[0.0, 1.0],
                files={kind: terms},
                collected=None,
            )
            trial.tried(
                f"bucket of a {kind} {option}={str(value)[:50]}",
                trial.service.buckets.declare,
                trial.owner,
                new,
            )


def test_a_block_that_nobody_can_draw_is_refused_before_it_is_paid_for_or_held(trial, files):
    asked = ReleaseRequest("dp-pix", {"epsilon": 1, "block": 2**70})
    dataset, before = trial.datasets["pixels(16)"], trial.spent()
    for work in (trial.service.plan, trial.service.protect):
        with pytest.raises(BadInput, match="`block` must be a whole number of pixels"):
            work(trial.owner, asked, files["picture"], dataset)
    with pytest.raises(BadInput, match="`block` must be a whole number of pixels"):
        trial.job(asked, files["picture"], dataset)
    assert trial.spent() == before
