"""Where an output may stand: nothing is replaced without a word, and one run at a time writes it."""

import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput, Forewarning
from sfumato.ledger import Ledger
from sfumato.release.path import claimed
from sfumato.reports import KeyRing, verify

HOLDER = """
import sys, time
from pathlib import Path
from sfumato.release.path import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def clinic(tmp_path):
    """A ledger with a budget, and what releases X.npy from it."""
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((9, 3)))
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        ledger.open("clinic", 20.0, 1e-5)

        def release(output="out.npy", *, epsilon=1.0, request=None, source="X.npy", **words):
            keyed = None
            if request is not None:
                keyed = sf.Keyed(bytes(32), dataset="clinic", version="1", release=request)
            return sf.protect(
                tmp_path / source,
                os.fspath(tmp_path / output) + ("/" if output.endswith("/") else ""),
                sf.Gaussian(epsilon=epsilon, delta=1e-6, clip=1.0, randomness=keyed),
                dataset="clinic",
                ledger=ledger,
                request=request,
                keys=KeyRing(tmp_path / "keys"),
                **words,
            )

        release.ledger, release.folder = ledger, tmp_path
        yield release


def spends(clinic):
    return clinic.ledger.balance("clinic").spends


def test_an_output_that_is_there_is_replaced_only_when_that_is_said(clinic):
    clinic()
    before = (clinic.folder / "out.npy").read_bytes()
    with pytest.raises(BadInput, match=r"out\.npy exists already; choose another output"):
        clinic()
    assert (clinic.folder / "out.npy").read_bytes() == before
    assert spends(clinic) == 1
    clinic(overwrite=True)
    assert (clinic.folder / "out.npy").read_bytes() != before
    assert spends(clinic) == 2
    assert verify(clinic.folder / "out.npy", KeyRing(clinic.folder / "keys"), clinic.ledger).holds


def test_a_request_may_be_repeated_into_its_own_output_and_into_no_other(clinic):
    clinic("paid.npy")
    clinic(request="r")
    before = (clinic.folder / "out.npy").read_bytes()
    clinic(request="r")
    assert (clinic.folder / "out.npy").read_bytes() == before
    for output, request in (("paid.npy", "r"), ("out.npy", "s"), ("out.npy", None)):
        with pytest.raises(BadInput, match="exists already"):
            clinic(output, request=request)
    (clinic.folder / "out.npy.cert.json").write_text("{}")
    with pytest.raises(BadInput, match="exists already"):
        clinic(request="r")
    assert spends(clinic) == 2


@pytest.mark.parametrize("output", ["out.npy", "parts/"])
def test_while_one_run_writes_a_second_one_is_refused_before_it_pays(clinic, output):
    with claimed(clinic.folder / output), pytest.raises(BadInput, match="another run is writing"):
        clinic(output)
    assert spends(clinic) == 0
    assert sorted(os.listdir(clinic.folder)) == [
        "X.npy",
        "budget.db",
        "budget.db-shm",
        "budget.db-wal",
    ]
    clinic(output)
    assert spends(clinic) == 1


def test_a_killed_process_keeps_nobody_out(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "out.npy")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "claimed\n"
    with pytest.raises(BadInput, match=r"another run is writing out\.npy"), claimed(tmp_path / "out.npy"):
        pass
    with claimed(tmp_path / "other.npy"):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(os.listdir(tmp_path)) == 1
    with claimed(tmp_path / "out.npy"):
        pass
    assert os.listdir(tmp_path) == []


def test_folders_that_were_made_for_an_output_go_away_with_a_refusal(clinic):
    with pytest.raises(BadInput):
        clinic("a/b/c/", source="missing.npy")
    assert not (clinic.folder / "a").exists()


def test_a_large_epsilon_is_forewarned_of_and_a_small_one_is_not(clinic):
    with warnings.catch_warnings():
        warnings.simplefilter("error", Forewarning)
        done = clinic(epsilon=10.0)
    assert done.to_dict()["warnings"] == []
    with pytest.warns(Forewarning, match=r"ε = 10\.5 per record is above 10"):
        done = clinic("large.npy", epsilon=10.5)
    (said,) = done.to_dict()["warnings"]
    assert said.startswith("ε = 10.5 per record is above 10")
    mechanism = sf.Gaussian(epsilon=1000, delta=1e-6, clip=1.0)
    with pytest.warns(Forewarning, match="ε = 1000 per record"):
        planned = sf.plan(clinic.folder / "X.npy", mechanism)
    assert len(planned.to_dict()["warnings"]) == 1
