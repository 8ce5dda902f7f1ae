"""A paid folder whose run was cut off: the same call goes on, pays nothing, and draws nothing anew."""

import hashlib
import os
import shutil
import stat

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.noise import Keyed
from sfumato.release.engines import LocalEngine
from sfumato.release.manifest import verify_folder
from sfumato.reports import MANIFEST, KeyRing

FILES = 6
NOISE = sf.Laplace(epsilon=0.5, clip=1.0)


class PowerCut(BaseException):
    """What ends a run in the middle of its work, as far as one process can."""


@pytest.fixture
def source(tmp_path):
    """A folder of arrays."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        np.save(folder / f"{number}.npy", np.random.default_rng(number).normal(size=(5, 3)))
    return folder


@pytest.fixture
def keys(tmp_path):
    return KeyRing(tmp_path / "keys")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as book:
        book.open("people", epsilon=50, delta=0.0)
        yield book


@pytest.fixture
def protect(source, tmp_path, keys, ledger):
    """Releases the folder; ``cut`` is how many files are drawn before the power fails."""

    def run(mechanism=NOISE, cut=None, output="out", **words):
        told = []

        def report(stage, share):
            told.append(stage)
            if stage == "drawing" and cut is not None and told.count("drawing") >= cut:
                raise PowerCut

        words = {"dataset": "people", "ledger": ledger, "keys": keys, "engine": LocalEngine(1)} | words
        done = sf.protect(source, tmp_path / output, mechanism, report=report, **words)
        return done, told

    return run


def spends(ledger):
    return [entry for entry in ledger.history("people") if entry.kind == "spend"]


def standing(folder):
    """The pieces in ``folder``: what each is, and when it was written."""
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in folder.glob("*.npy")}


def test_the_same_call_finishes_what_was_cut_off_and_pays_nothing_more(protect, ledger, tmp_path, keys):
    with pytest.raises(PowerCut) as stopped:
        protect(cut=3)
    assert "until the same command has resumed the run" in stopped.value.__notes__[0]
    before, private = standing(tmp_path / "out"), tmp_path / ".out.run"
    assert len(before) == 3
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in private.iterdir()} == {0o600}
    done, told = protect()
    assert f"resuming the run that row {spends(ledger)[0].number} of people paid for: 3 files stand" in told
    assert (done.resumed, len(done.released), done.to_dict()["resumed"]) == (3, FILES, 3)
    assert before.items() <= standing(tmp_path / "out").items()
    assert verify_folder(tmp_path / "out", keys, ledger).holds
    assert len(spends(ledger)) == 1
    assert not private.exists()
    assert done.manifest.paid["hash"] == spends(ledger)[0].hash
    with pytest.raises(BadInput, match="of another run"):
        protect()


def test_a_run_that_is_cut_off_again_and_again_comes_to_its_end(protect, ledger, tmp_path, keys):
    for _ in range(FILES - 1):
        with pytest.raises(PowerCut):
            protect(cut=1)
    done, _ = protect()
    assert done.resumed == FILES - 1
    assert verify_folder(tmp_path / "out", keys, ledger).holds
    assert len(spends(ledger)) == 1


def test_a_piece_that_was_altered_or_lost_is_drawn_from_the_same_noise(protect, ledger, tmp_path):
    with pytest.raises(PowerCut):
        protect(cut=4)
    before = standing(tmp_path / "out")
    altered, lost, *_ = sorted(before)
    (tmp_path / "out" / altered).write_bytes(b"other bytes")
    (tmp_path / "out" / lost).unlink()
    done, _ = protect()
    after = standing(tmp_path / "out")
    assert done.resumed == 2
    assert all(after[name][0] == content for name, (content, _) in before.items())


def test_a_piece_that_nobody_noted_is_drawn_again_byte_for_byte(protect, tmp_path):
    """As after a kill between its appearance and the log, whose last line may be torn."""
    with pytest.raises(PowerCut):
        protect(cut=3)
    before, log = standing(tmp_path / "out"), tmp_path / ".out.run" / "pieces"
    first, second, _ = log.read_text().splitlines(keepends=True)
    log.write_text(first + second[:20])
    done, _ = protect()
    assert done.resumed == 1
    assert all(standing(tmp_path / "out")[name][0] == content for name, (content, _) in before.items())


@pytest.mark.parametrize("change", ["content", "a new file", "epsilon", "a name"])
def test_what_changed_since_is_refused_unpaid_and_the_run_stays(protect, source, tmp_path, ledger, change):
    with pytest.raises(PowerCut):
        protect(cut=2)
    held, words = standing(tmp_path / "out"), {}
    if change == "content":
        np.save(source / "0.npy", np.zeros((5, 3)))
    elif change == "a new file":
        np.save(source / "7.npy", np.ones((5, 3)))
    elif change == "a name":
        (source / "0.npy").rename(source / "zero.npy")
    else:
        words = {"mechanism": sf.Laplace(epsilon=0.25, clip=1.0)}
    with pytest.raises(BadInput, match=r"the run in \.out\.run was interrupted, and the .* changed since"):
        protect(**words)
    assert len(spends(ledger)) == 1
    assert standing(tmp_path / "out") == held
    assert (tmp_path / ".out.run").exists()


def test_without_its_record_the_files_of_a_run_are_of_nobody(protect, tmp_path, ledger):
    with pytest.raises(PowerCut):
        protect(cut=2)
    shutil.rmtree(tmp_path / ".out.run")
    with pytest.raises(BadInput, match="holds files that are not of this run"):
        protect()
    assert len(spends(ledger)) == 1


def test_a_refusal_leaves_no_record(protect, tmp_path, ledger):
    with pytest.raises(BudgetRefused):
        protect(sf.Laplace(epsilon=40.0, clip=1.0))
    assert {name.split("-")[0] for name in os.listdir(tmp_path)} == {"budget.db", "in", "keys"}


@pytest.mark.parametrize("how", ["uncharged", "noise that cannot be keyed"])
def test_a_run_that_nobody_pays_for_or_that_cannot_be_drawn_again_keeps_no_record(protect, tmp_path, how):
    words = {"ledger": None, "uncharged": True} if how == "uncharged" else {}
    noise = NOISE if how == "uncharged" else sf.RandomProjection(2, sf.Laplace(epsilon=0.5, clip=1.0))
    with pytest.raises(PowerCut) as stopped:
        protect(noise, cut=2, **words)
    assert stopped.value.__notes__[0].endswith("belong to no release")
    assert not (tmp_path / ".out.run").exists()


def asked(**words):
    noise = Keyed(bytes(32), dataset="people", version="1", release="r1")
    return {"mechanism": sf.Laplace(epsilon=0.5, clip=1.0, randomness=noise), "request": "r1"} | words


def test_a_request_that_was_cut_off_draws_only_what_is_missing(protect, ledger, tmp_path, keys):
    with pytest.raises(PowerCut):
        protect(**asked(cut=3))
    before = standing(tmp_path / "out")
    done, _ = protect(**asked())
    assert done.resumed == 3
    assert before.items() <= standing(tmp_path / "out").items()
    protect(**asked(output="calm/out"))
    whole = {name: content for name, (content, _) in standing(tmp_path / "out").items()}
    assert {name: content for name, (content, _) in standing(tmp_path / "calm/out").items()} == whole
    calm, stormy = ((tmp_path / place / MANIFEST).read_bytes() for place in ("calm/out", "out"))
    assert calm == stormy
    assert len(spends(ledger)) == 1


def test_a_finished_request_returns_what_stands(protect, ledger, tmp_path, keys):
    first, _ = protect(**asked())
    held = standing(tmp_path / "out")
    again, told = protect(**asked())
    assert again.resumed == FILES
    assert "drawing" not in told
    assert standing(tmp_path / "out") == held
    assert again.released == first.released
    assert again.manifest == first.manifest
    assert (len(spends(ledger)), (tmp_path / ".out.run").exists()) == (1, False)


def test_a_manifest_that_somebody_altered_is_not_believed(protect, tmp_path, keys, ledger):
    """Its files are drawn again, as they were."""
    protect(**asked())
    held, manifest = standing(tmp_path / "out"), tmp_path / "out" / MANIFEST
    name = min(held)
    (tmp_path / "out" / name).write_bytes(b"other bytes")
    true, false = (hashlib.sha256(content).hexdigest() for content in (held[name][0], b"other bytes"))
    manifest.write_text(manifest.read_text().replace(true, false))
    done, _ = protect(**asked())
    assert done.resumed == 0
    assert standing(tmp_path / "out")[name][0] == held[name][0]
    assert verify_folder(tmp_path / "out", keys, ledger).holds
