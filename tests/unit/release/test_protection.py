"""Files on their way: holds, refusals that cost nothing, and outputs that one run at a time writes."""

import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import soundfile

import sfumato as sf
from sfumato.errors import BadInput, Forewarning
from sfumato.io import Schema, encode_picture
from sfumato.ledger import Ledger
from sfumato.mechanisms import make_mechanism
from sfumato.noise import Keyed
from sfumato.release import plan, protect
from sfumato.release.path import HeldPayment, Payment, claimed, silent
from sfumato.release.protection import HeldFile
from sfumato.release.request import ReleaseRequest
from sfumato.reports import KeyRing, file_digest, verify

SECRET = bytes(range(32))


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path}/budget.db") as made:
        made.open("clinic", 8.0, 1e-5)
        yield made


@pytest.fixture
def keys(tmp_path):
    return KeyRing(tmp_path / "keys")


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(30, 4)))
    return tmp_path / "x.npz"


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def held_file(file, request=None, report=silent, **words):
    noise = None if request is None else Keyed(SECRET, dataset="clinic", version="1", release="r")
    asked = ReleaseRequest("gaussian", {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0} | words)
    return HeldFile(file, asked, noise=noise, report=report)


def payment(ledger, file, request=None, key="first", **words):
    body = bytes.fromhex(file_digest(file))
    return HeldPayment("clinic", ledger, request, key=key, body=body, **words)


def kinds(ledger):
    return [entry.kind for entry in ledger.history("clinic")][1:]


@pytest.mark.parametrize("request_", [None, "r"])
def test_a_hold_is_committed_and_its_row_is_what_the_certificate_names(ledger, keys, file, out, request_):
    told = []
    held = held_file(file, request_, report=lambda stage, share: told.append(stage))
    first = held.set_aside(payment(ledger, file, request_))
    assert held.set_aside(payment(ledger, file, request_)) == first
    assert kinds(ledger) == ["hold"]

    def before():
        assert told == ["checking"]  # all was read, and nothing drawn
        assert kinds(ledger) == ["hold"]

    done = held.protect(out, payment(ledger, file, request_, before=before), keys)
    assert done.paid == {"ledger": ledger.identity, "number": first.number, "hash": first.hash}
    assert kinds(ledger) == ["hold", "commit"]
    assert [check.outcome for check in verify(done.output, keys, ledger).checks] == ["holds"] * 4


def test_keyed_noise_is_drawn_again_to_the_same_bytes_for_nothing(ledger, keys, file, tmp_path):
    drawn = []
    for number in range(2):
        place = tmp_path / str(number)
        place.mkdir()
        done = held_file(file, "r").protect(place, payment(ledger, file, "r"), keys)
        drawn.append(done.output.read_bytes())
    assert drawn[0] == drawn[1]
    assert kinds(ledger) == ["hold", "commit"]


def test_what_was_given_back_draws_nothing(ledger, keys, file, out):
    held = held_file(file)
    hold = held.set_aside(payment(ledger, file))
    ledger.release_hold("clinic", hold.number)
    with pytest.raises(BadInput, match="given back"):
        held.protect(out, payment(ledger, file), keys)

    def given_back_meanwhile():
        newest = ledger.history("clinic")[-1]
        ledger.release_hold("clinic", newest.number)

    with pytest.raises(BadInput, match="settled before, by a release"):
        held.protect(out, payment(ledger, file, key="second", before=given_back_meanwhile), keys)
    assert kinds(ledger) == ["hold", "release", "hold", "release"]
    assert list(out.iterdir()) == []


def test_who_refuses_before_the_commit_leaves_the_hold_as_it_is(ledger, keys, file, out):
    def refuse():
        raise BadInput("not now.")

    with pytest.raises(BadInput, match="not now"):
        held_file(file).protect(out, payment(ledger, file, before=refuse), keys)
    assert kinds(ledger) == ["hold"]
    assert list(out.iterdir()) == []


def test_a_hold_pays_for_what_it_was_made_for_and_for_nothing_else(ledger, keys, file, out, tmp_path):
    held_file(file, "r").set_aside(payment(ledger, file, "r"))
    with pytest.raises(BadInput, match="used for another request"):
        held_file(file, "r", epsilon=2.0).protect(out, payment(ledger, file, "r"), keys)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "x.npz"
    np.savez(other, X=np.zeros((30, 4)))
    renamed = tmp_path / "y.npz"
    renamed.write_bytes(file.read_bytes())
    for wrong in (other, renamed):
        with pytest.raises(BadInput, match="other content, with other parameters or under another name"):
            held_file(wrong, "r").protect(out, payment(ledger, wrong, "r"), keys)
    assert kinds(ledger) == ["hold"]
    assert list(out.iterdir()) == []


def test_a_request_needs_keyed_noise_and_bad_input_holds_nothing(ledger, keys, file, out, tmp_path):
    with pytest.raises(BadInput, match="keyed noise"):
        held_file(file).set_aside(payment(ledger, file, "r"))
    with pytest.raises(BadInput):
        held_file(tmp_path / "missing.npz")
    values = np.zeros((30, 4))
    values[3, 1] = np.nan
    np.savez(file, X=values)
    with pytest.raises(BadInput):
        held_file(file).protect(out, payment(ledger, file), keys)
    assert kinds(ledger) == []


COLUMNS = {"columns": {"age": {"kind": "numeric", "bounds": [0, 120]}}}
IMPOSSIBLE = [
    ("x.npz", "gaussian", {"epsilon": [2**31], "clip": 1.0}, "too small to protect a record"),
    ("x.npz", "personalised", {"epsilon": [2**31], "clip": 1.0}, "too small to protect a record"),
    ("x.npz", "laplace", {"epsilon": [1e-100], "clip": 1.0}, "too large for the sampler"),
    ("f.npz", "laplace", {"epsilon": [1e-3], "clip": 1e37}, "does not fit in float32"),
    ("x.npz", "tensor-ldp", {"epsilon": [1e-100], "bounds": (-1, 1)}, "too large for the sampler"),
    ("x.npz", "random-projection", {"seed": "x"}, "a seed must be a whole number"),
    ("x.csv", "gaussian", {"epsilon": [1e100]}, "so little noise hides nothing"),
    ("x.png", "dp-pix", {"epsilon": [1], "block": 2**70}, "`block` must be a whole number of pixels"),
    ("x.png", "pixelate", {"block": 2**70}, "`block` must be a whole number of pixels"),
    ("x.png", "blur", {"sigma": 1e100}, "`sigma` must be at most 1000 pixels"),
    ("x.png", "mask", {"value": 2}, "`value` must lie between 0 and 1"),
    ("x.png", "scaled-pixels", {"epsilon": [1e-100]}, "cannot be drawn"),
    (
        "x.png",
        "plane-means",
        {"epsilon": [1], "chroma": 5e-324},
        "`chroma` must lie strictly between 0 and 1",
    ),
    (
        "x.png",
        "plane-bands",
        {"epsilon": [1], "chroma": 5e-324},
        "`chroma` must lie strictly between 0 and 1",
    ),
    ("x.png", "selective-noise", {"epsilon": [1e-100]}, "too large for the sampler"),
    ("x.png", "selective-noise", {"epsilon": [1], "attribution": "x"}, "`attribution` must be None or"),
    ("x.png", "selective-noise", {"epsilon": [1], "k": "x"}, "`k` must be a number"),
    ("x.png", "content-adaptive", {"epsilon": [1], "map": "private", "detectors": 5}, "`detectors` must be"),
    ("x.png", "content-adaptive", {"epsilon": [1], "map": "private", "weights": 5}, "`weights` must be"),
    ("x.wav", "mel-laplace", {"epsilon": [1e-100]}, "too large for the sampler"),
    ("x.wav", "mel-laplace", {"epsilon": [1], "moment": "x"}, "`moment` must be a number"),
]


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    values = random.uniform(-0.5, 0.5, size=(6, 3))
    np.savez(tmp_path / "x.npz", X=values)
    np.savez(tmp_path / "f.npz", X=values.astype(np.float32))
    (tmp_path / "x.csv").write_text("age\n30\n40\n")
    pixels = random.integers(0, 256, size=(10, 12, 3)).astype(np.uint8)
    (tmp_path / "x.png").write_bytes(encode_picture(pixels, ".png"))
    soundfile.write(tmp_path / "x.wav", random.uniform(-0.5, 0.5, size=400), 8_000)
    return tmp_path


@pytest.mark.parametrize(("name", "mechanism", "options", "sentence"), IMPOSSIBLE)
def test_the_impossible_is_refused_before_it_is_paid_for(
    folder, monkeypatch, name, mechanism, options, sentence
):
    monkeypatch.setattr(Payment, "pay", lambda *_: pytest.fail("this was paid for"))
    made = make_mechanism(mechanism, options, bounded=True)
    schema = Schema.from_dict(COLUMNS) if name == "x.csv" else None
    with pytest.raises(BadInput, match=sentence):
        plan(folder / name, made, schema=schema)
    with pytest.raises(BadInput, match=sentence):
        protect(folder / name, folder / f"out-{name}", made, schema=schema)
    assert not (folder / f"out-{name}").exists()


def test_a_window_longer_than_the_clip_keeps_one_block(folder):
    made = make_mechanism("band-noise", {"epsilon": [1], "unit": "window(1e99)"}, bounded=True)
    assert protect(folder / "x.wav", folder / "out.wav", made).statement.proven.epsilon() == pytest.approx(
        1.0
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epsilon": ["x"], "clip": 1}, r"takes a range, as in `epsilon=\(1, 8\)`, not 'x'"),
        ({"epsilon": [], "clip": 1}, r"takes a range, as in `epsilon=\(1, 8\)`, not none"),
        ({"epsilon": [10**400], "clip": 1}, "`epsilon` must be given in numbers within"),
        ({"epsilon": [1, 10**5000], "clip": 1}, "`epsilon` must be given in numbers within"),
        ({"epsilon": [1, 8], "clip": -(10**400)}, "`clip` must be given in numbers within"),
    ],
)
def test_what_no_mechanism_takes_is_refused_where_they_are_made(options, sentence):
    with pytest.raises(BadInput, match=sentence):
        make_mechanism("trust-adaptive", options)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_keyed_noise_is_left_for_the_content_it_is_for(folder, mechanism):
    noise = Keyed(bytes(32), dataset="ward", version="1", release="monday")
    made = make_mechanism(mechanism, {"epsilon": [1], "clip": 1.0, "randomness": noise})
    plan(folder / "x.npz", made)
    assert protect(folder / "x.npz", folder / "out.npz", made).rows == 6


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
