"""Checkpoints: what is kept of a run, who may resume it, and what a resumed run draws."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from sfumato.errors import BadInput, StorageFull
from sfumato.ledger import Ledger
from sfumato.noise import NoisedSums, Seeded
from sfumato.privacy import Guarantee
from sfumato.release import checkpoint as module
from sfumato.release.checkpoint import Checkpoint
from sfumato.reports import VerificationFailed

DATA, REQUEST = b"d" * 32, {"epsilon": 1.0}


class PowerCut(BaseException):
    """What ends a run in the middle of its work, as far as one process can."""


@contextmanager
def cut_off(folder, name="model"):
    """The checkpoint of a run that ends with a power cut when the block does."""
    with suppress(PowerCut), Checkpoint(folder / name) as checkpoint:
        yield checkpoint
        raise PowerCut


def silent(stage, share):
    pass


class Counted:
    """Draws sums of three numbers and counts how many were drawn."""

    def __init__(self):
        self.drawn = 0

    def __call__(self, randomness):
        self.drawn += 1
        return randomness.stream(b"noise").words(3).astype(np.float64)


def run(checkpoint, draw, steps, *, cut=None, data=DATA, request=REQUEST, paid=True):
    """The sums of one run; it is cut off after ``cut`` of them."""
    with checkpoint:
        checkpoint.begin(data, request, paid=paid)
        checkpoint.settle()
        sums = checkpoint.sums(None, silent)
        found = []
        for step in range(steps):
            if step == cut:
                raise PowerCut
            found.append(sums(draw))
    return found


def interrupted(folder, cut, steps=5, **words):
    draw = Counted()
    with pytest.raises(PowerCut):
        run(Checkpoint(folder / "model"), draw, steps, cut=cut, **words)
    return draw


def log_of(folder):
    return folder / ".model.run" / "sums"


def test_kept_sums_are_returned_and_only_the_others_are_drawn(tmp_path):
    draw = interrupted(tmp_path, 3)
    told = []
    with cut_off(tmp_path) as resumed:
        assert resumed.exists
        resumed.begin(DATA, REQUEST, paid=True)
        seed = resumed._record["seed"]
        assert resumed.resumed == 3
        resumed.sums(None, lambda stage, share: told.append(stage))
    assert told == ["resuming the run after 3 noised sums"]
    before = draw.drawn
    found = run(Checkpoint(tmp_path / "model"), draw, 5)
    assert draw.drawn - before == 2
    # An uninterrupted run with the same seed draws the same sums.
    with cut_off(tmp_path, "other") as whole:
        whole.begin(DATA, REQUEST, paid=True)
        whole._record |= {"seed": seed, "id": resumed.request}
        again = whole.sums(None, silent)
        np.testing.assert_array_equal([again(Counted()) for _ in range(5)], found)
    assert not Checkpoint(tmp_path / "model").exists
    assert os.listdir(tmp_path) == [".other.run"]


def test_another_run_has_another_seed_and_steps_share_no_stream(tmp_path):
    one, other = (run(Checkpoint(tmp_path / "model"), Counted(), 4) for _ in range(2))
    assert len({tuple(found) for found in (*one, *other)}) == 8


def test_record_and_log_are_private(tmp_path):
    before = os.umask(0)
    try:
        interrupted(tmp_path, 2)
    finally:
        os.umask(before)
    folder = tmp_path / ".model.run"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {name: stat.S_IMODE((folder / name).stat().st_mode) for name in os.listdir(folder)} == {
        "record.json": 0o600,
        "sums": 0o600,
    }


@pytest.mark.parametrize("mode", [0o750, 0o701])
def test_a_folder_that_others_may_enter_is_refused(tmp_path, mode):
    interrupted(tmp_path, 2)
    (tmp_path / ".model.run").chmod(mode)
    with pytest.raises(BadInput, match="no private folder of yours"):
        run(Checkpoint(tmp_path / "model"), Counted(), 5)


@pytest.mark.parametrize(
    ("words", "what"),
    [({"data": b"e" * 32}, "the data"), ({"request": {"epsilon": 2.0}}, "the request"), ({}, "the code")],
)
def test_other_data_code_and_requests_are_refused_by_name_and_keep_the_run(
    tmp_path, monkeypatch, words, what
):
    interrupted(tmp_path, 3)
    kept = log_of(tmp_path).read_bytes()
    if not words:
        monkeypatch.setattr(module, "code_digest", lambda: "another")
    draw = Counted()
    with pytest.raises(BadInput, match=f"{what}.* changed since"):
        run(Checkpoint(tmp_path / "model"), draw, 5, **words)
    assert draw.drawn == 0
    assert log_of(tmp_path).read_bytes() == kept


def test_a_run_that_nothing_was_paid_for_is_begun_anew_under_another_seed(tmp_path):
    interrupted(tmp_path, 3, paid=False)
    seed = json.loads((tmp_path / ".model.run" / "record.json").read_text())["seed"]
    draw = interrupted(tmp_path, 1, paid=False, data=b"e" * 32)
    assert draw.drawn == 1
    assert json.loads((tmp_path / ".model.run" / "record.json").read_text())["seed"] != seed


@pytest.mark.parametrize("cut", [1, 8, 40, 200])
def test_a_torn_last_entry_is_cut_off_and_drawn_again(tmp_path, cut):
    draw = interrupted(tmp_path, 3)
    whole = log_of(tmp_path).read_bytes()
    entry = len(whole) // 3
    log_of(tmp_path).write_bytes(whole[: 2 * entry + cut % entry])
    interrupted(tmp_path, 3)
    assert log_of(tmp_path).read_bytes() == whole  # the same streams, the same sums
    assert draw.drawn == 3


def test_an_entry_of_zeros_that_a_power_cut_left_is_cut_off(tmp_path):
    interrupted(tmp_path, 3)
    whole = log_of(tmp_path).read_bytes()
    log_of(tmp_path).write_bytes(whole[: 2 * len(whole) // 3] + bytes(len(whole) // 3))
    assert interrupted(tmp_path, 3).drawn == 1
    assert log_of(tmp_path).read_bytes() == whole


@pytest.mark.parametrize("place", [0, 60, 130])
def test_a_log_that_is_damaged_before_its_last_entry_is_refused(tmp_path, place):
    interrupted(tmp_path, 3)
    content = bytearray(log_of(tmp_path).read_bytes())
    content[place] ^= 1
    log_of(tmp_path).write_bytes(content)
    draw = Counted()
    with pytest.raises(BadInput, match=r"\.model\.run/sums is damaged"):
        run(Checkpoint(tmp_path / "model"), draw, 5)
    assert draw.drawn == 0


def test_a_full_disk_leaves_the_sums_before_it(tmp_path, monkeypatch):
    draw, fsync, calls = Counted(), os.fsync, []
    checkpoint = Checkpoint(tmp_path / "model")

    def full(descriptor):
        if checkpoint._record and os.path.samestat(os.fstat(descriptor), log_of(tmp_path).stat()):
            calls.append(descriptor)
            if len(calls) == 3:
                raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        run(checkpoint, draw, 5)
    monkeypatch.undo()
    assert len(run(Checkpoint(tmp_path / "model"), draw, 5)) == 5
    assert draw.drawn == 6  # the one that could not be kept was used by nobody


def test_a_state_takes_the_place_of_many_sums(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_KEPT", 300)
    whole = []

    def go_on(cut):
        with cut_off(tmp_path) as checkpoint:
            checkpoint.begin(DATA, REQUEST, paid=True)
            checkpoint.settle()
            sums = checkpoint.sums(None, silent)
            total = np.zeros(3) if sums.state is None else np.frombuffer(sums.state).copy()
            for step in range(sums.count, 12):
                if step == cut:
                    raise PowerCut
                drawn = sums(draw)
                if step == len(whole):
                    whole.append(drawn)
                total += drawn
                sums.save(total.tobytes)
            np.testing.assert_allclose(total, sum(whole))

    draw = Counted()
    for cut in (2, 5, 9, 11, 20):
        go_on(cut)
        assert log_of(tmp_path).stat().st_size < 600
    assert draw.drawn == 12
    assert stat.S_IMODE((tmp_path / ".model.run" / "state").stat().st_mode) == 0o600


def test_a_state_that_was_kept_before_the_log_was_cut_stands_for_its_sums(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_KEPT", 300)
    monkeypatch.setattr(module._Log, "_cut", lambda *given: (_ for _ in ()).throw(PowerCut()))
    draw = Counted()
    with cut_off(tmp_path) as checkpoint:
        checkpoint.begin(DATA, REQUEST, paid=True)
        sums = checkpoint.sums(None, silent)
        for _ in range(5):
            sums(draw)
            sums.save(lambda: b"all of it")
    monkeypatch.undo()
    assert 0 < draw.drawn < 5
    with cut_off(tmp_path) as again:
        again.begin(DATA, REQUEST, paid=True)
        sums = again.sums(None, silent)
        assert (sums.state, sums.count, log_of(tmp_path).stat().st_size) == (b"all of it", draw.drawn, 0)


def test_two_processes_cannot_have_one_folder(tmp_path):
    with cut_off(tmp_path) as first:
        first.begin(DATA, REQUEST, paid=True)
        with pytest.raises(BadInput, match="another run"), (second := Checkpoint(tmp_path / "model")):
            second.begin(DATA, REQUEST, paid=True)
        assert first.exists


def test_a_refusal_before_anything_is_paid_leaves_no_folder(tmp_path):
    with suppress(BadInput), Checkpoint(tmp_path / "model") as checkpoint:
        checkpoint.begin(DATA, REQUEST, paid=True)
        raise BadInput("no budget.")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def book(tmp_path):
    with Ledger(f"sqlite:///{tmp_path}/budget.db") as ledger:
        ledger.open("ward", 10.0, 1e-5)
        ledger.spend("ward", Guarantee.pure(1.0), key="run")
        yield ledger


def begun(checkpoint, book):
    checkpoint.begin(DATA, REQUEST, paid=True)
    checkpoint.settle(book, "ward", 2)
    return checkpoint.sums(None, silent)


def copied(tmp_path):
    """A copy of the folder, as another machine would have it."""
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(tmp_path / ".model.run", tmp_path / "elsewhere" / ".model.run")
    return Checkpoint(tmp_path / "elsewhere" / "model")


def test_a_copy_of_the_folder_waits_for_the_lease_to_end(tmp_path, book, monkeypatch):
    with cut_off(tmp_path) as first:
        begun(first, book)(Counted())
        copy = copied(tmp_path)
        with pytest.raises(BadInput, match="another process carries on"), copy:
            begun(copy, book)
        assert copy.exists
        monkeypatch.setattr(Checkpoint, "_end_leases", lambda *given, **words: None)  # it was killed
    monkeypatch.undo()
    with (
        pytest.raises(BadInput, match="another process"),
        (again := Checkpoint(copy.folder.parent / "model")),
    ):
        begun(again, book)
    with cut_off(tmp_path) as same:
        begun(same, book)  # in the folder that had the lease nobody waits
    with cut_off(copy.folder.parent) as later:
        assert begun(later, book).count == 0  # the lease was given back
        assert later.resumed == 1


def test_whoever_lost_the_lease_draws_no_more_and_keeps_no_certificate(tmp_path, book, monkeypatch):
    monkeypatch.setattr(module, "_RENEWAL_SECONDS", 0.02)
    with cut_off(tmp_path) as first:
        sums, draw = begun(first, book), Counted()
        sums(draw)
        book.end_lease("ward", 2, first.holder)
        book.lease("ward", 2, "another machine")
        deadline = time.monotonic() + 60
        while first._lost is None and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(BadInput, match="lost"):
            book.keep_certificate("ward", 2, "{}", first.holder)
        with pytest.raises(BadInput, match="another process"):
            sums(draw)
    assert draw.drawn == 1
    assert first.exists


def test_an_audit_that_withholds_ends_the_run_for_good(tmp_path, book):
    with suppress(VerificationFailed), Checkpoint(tmp_path / "model") as first:
        begun(first, book)
        copy = copied(tmp_path)
        raise VerificationFailed("more than is proven.")
    assert not first.exists
    with pytest.raises(BadInput, match="released nothing"), copy:
        begun(copy, book)


def test_sums_without_a_checkpoint_are_drawn_from_the_randomness_that_is_given():
    one, other = NoisedSums(Seeded(1)), NoisedSums(Seeded(1))
    np.testing.assert_array_equal([one(Counted()) for _ in range(3)], [other(Counted()) for _ in range(3)])
    assert one.count == 3
    assert NoisedSums(Seeded(1)).stream(b"x").words(1) != NoisedSums(Seeded(1)).stream(b"y").words(1)
