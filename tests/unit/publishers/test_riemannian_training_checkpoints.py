"""Checkpoints: whole, private, and of no use to another model."""

import contextlib
import math
import os
import resource
import stat
import zipfile

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.publishers.riemannian.riemannian_training import Checkpoint, Trainer, fingerprint
from sfumato.publishers.riemannian.riemannian_vae import Architecture
from sfumato.publishers.riemannian.training_stages import Rates, Schedule, new_run

IDENTITY = {"shape": [8, 8], "latent": 3, "data": "abc"}


def test_what_was_written_is_read_back_and_only_its_owner_may_read_it(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    assert checkpoint.read() is None
    checkpoint.write({"steps": 3, "weights": torch.arange(4.0)})
    checkpoint.write({"steps": 4, "weights": torch.arange(5.0)})
    content = checkpoint.read()
    assert content["steps"] == 4
    assert torch.equal(content["weights"], torch.arange(5.0))
    assert stat.S_IMODE(os.stat(checkpoint.path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["run.pt"]


def test_a_file_left_unfinished_by_a_killed_process_does_no_harm(tmp_path):
    part = tmp_path / "run.pt.part"
    part.write_bytes(b"half")
    part.chmod(0o644)
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    assert checkpoint.read() is None
    checkpoint.write({"steps": 1})
    assert checkpoint.read()["steps"] == 1
    assert stat.S_IMODE(os.stat(checkpoint.path).st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": [28, 28]}, r"has shape \[8, 8\], and \[28, 28\] is asked for"),
        ({"latent": 10}, "has latent 3, and 10 is asked for"),
        ({"data": "xyz"}, "was made from other pictures"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_without_saying_a_digest(tmp_path, change, said):
    Checkpoint(tmp_path / "run.pt", IDENTITY).write({})
    with pytest.raises(BadInput, match=said) as caught:
        Checkpoint(tmp_path / "run.pt", IDENTITY | change).read()
    assert "xyz" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut off"])
def test_files_that_are_no_checkpoints_are_refused(tmp_path, content):
    (tmp_path / "run.pt").write_bytes(content)
    with pytest.raises(BadInput, match="cannot be read as a checkpoint"):
        Checkpoint(tmp_path / "run.pt", IDENTITY).read()


def test_a_file_of_other_tensors_is_refused(tmp_path):
    torch.save({"weights": torch.zeros(3)}, tmp_path / "run.pt")
    with pytest.raises(BadInput, match="no checkpoint of this version"):
        Checkpoint(tmp_path / "run.pt", IDENTITY).read()


def test_nothing_in_a_file_is_run(tmp_path):
    class Runs:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "made"),))

    torch.save({"format": 1, "identity": IDENTITY, "x": Runs()}, tmp_path / "run.pt")
    with pytest.raises(BadInput, match="cannot be read"):
        Checkpoint(tmp_path / "run.pt", IDENTITY).read()
    assert not (tmp_path / "made").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match="in a folder that exists"):
        Checkpoint(tmp_path / "none" / "run.pt", IDENTITY).write({})


def test_fingerprints_know_pictures_labels_order_and_shape():
    pictures, labels = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([0, 1])
    found = {
        fingerprint(pictures, labels),
        fingerprint(pictures[::-1], labels),
        fingerprint(pictures, labels[::-1]),
        fingerprint(pictures.reshape(2, 4, 3), labels),
        fingerprint(pictures + 1e-3, labels),
    }
    assert len(found) == 5
    assert fingerprint(pictures, labels) == fingerprint(pictures.copy(), labels.copy())


def stored(path, **content):
    torch.save({"format": 1, "identity": dict(IDENTITY)} | content, path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"identity": None}, "is no checkpoint of this version"),
        ({"identity": ["shape", "latent", "data"]}, "is no checkpoint of this version"),
        ({"format": torch.ones(2)}, "is no checkpoint of this version"),
        ({"format": True}, "is no checkpoint of this version"),
        ({"identity": {}}, "has shape of another kind"),
        ({"identity": IDENTITY | {"shape": torch.zeros(2)}}, "has shape of another kind"),
        ({"identity": IDENTITY | {"shape": [torch.zeros(2), 8]}}, "has shape of another kind"),
        ({"identity": IDENTITY | {"latent": torch.tensor(3)}}, "has latent of another kind"),
        ({"identity": IDENTITY | {"latent": 10**70}}, "has latent of another kind"),
        ({"identity": IDENTITY | {"latent": "z" * 5000}}, "has latent zzz"),
        ({"identity": IDENTITY | {"latent": "two\nlines"}}, "has latent two"),
        ({"identity": IDENTITY | {"data": torch.zeros(3)}}, "was made from other pictures"),
    ],
)
def test_hostile_identities_are_refused_in_one_sentence(tmp_path, content, said):
    stored(tmp_path / "run.pt", **content)
    with pytest.raises(BadInput, match=said) as caught:
        Checkpoint(tmp_path / "run.pt", IDENTITY).read()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < len(str(tmp_path)) + 250


def test_a_checkpoint_without_an_identity_is_none(tmp_path):
    torch.save({"format": 1}, tmp_path / "run.pt")
    with pytest.raises(BadInput, match="is no checkpoint of this version"):
        Checkpoint(tmp_path / "run.pt", IDENTITY).read()


@pytest.mark.parametrize("pickled", [b"0.", b"\x80\x02.", b"\x80\x02e.", b"\x80\x02R.", b"\x80\x02}u."])
def test_broken_pickles_are_refused(tmp_path, pickled):
    """Alone, and inside an archive such as torch writes."""
    (tmp_path / "run.pt").write_bytes(pickled)
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    with pytest.raises(BadInput, match="cannot be read as a checkpoint"):
        checkpoint.read()
    stored(tmp_path / "run.pt")
    with zipfile.ZipFile(tmp_path / "run.pt") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "run.pt", "w") as archive:
        for name, value in parts.items():
            archive.writestr(name, pickled if name.endswith("data.pkl") else value)
    with pytest.raises(BadInput, match="cannot be read as a checkpoint"):
        checkpoint.read()


def test_every_cut_and_flipped_byte_is_a_checkpoint_or_a_sentence(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    checkpoint.write({"steps": 3, "weights": torch.arange(4.0)})
    whole = checkpoint.path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 150).tolist():
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        for spoiled in (bytes(changed), whole[:place]):
            checkpoint.path.write_bytes(spoiled)
            with contextlib.suppress(BadInput):
                assert "identity" in checkpoint.read()


@pytest.mark.parametrize("size", [0, 100, 4096])
def test_a_full_disk_leaves_the_old_content_and_nothing_beside_it(tmp_path, size):
    """The limit of a file's size answers as a full disk does."""
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    checkpoint.write({"steps": 3})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(BadInput, match=r"cannot be written .*that exists and has room"):
            checkpoint.write({"steps": 4, "weights": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == ["run.pt"]
    assert checkpoint.read()["steps"] == 3


def test_whatever_ends_a_write_nothing_unfinished_remains(tmp_path):
    class Stops:
        def __reduce__(self):
            (hidden,) = [name for name in os.listdir(tmp_path) if name.startswith(".")]
            assert stat.S_IMODE(os.stat(tmp_path / hidden).st_mode) == 0o600
            raise KeyboardInterrupt

    before = os.umask(0o000)
    try:
        with pytest.raises(KeyboardInterrupt):
            Checkpoint(tmp_path / "run.pt", IDENTITY).write({"x": Stops()})
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == []


def test_a_link_at_the_old_name_of_unfinished_files_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("stays")
    (tmp_path / "run.pt.part").symlink_to(tmp_path / "mine")
    Checkpoint(tmp_path / "run.pt", IDENTITY).write({"steps": 1})
    assert (tmp_path / "mine").read_text() == "stays"


@pytest.fixture(scope="module")
def within(tmp_path_factory):
    """What a checkpoint holds inside the third stage, and how to begin such a run again."""
    pictures = torch.as_tensor(load_digits().images[:60] / 16.0, dtype=torch.float32)
    path = tmp_path_factory.mktemp("within") / "run.pt"

    def run():
        rates = Rates(batch=32, every=2, divergent=4, perturbed=4)
        return new_run(Architecture((8, 8), 2, 6, "dense", width=16), pictures, seed=1, rates=rates)

    class Stopped(Exception):
        pass

    class Stopping(Checkpoint):
        def write(self, content):
            super().write(content)
            if content["stage"] == 2 and content["within"]:
                raise Stopped

    with pytest.raises(Stopped):
        Trainer(run(), Schedule((1, 1, 2, 1)), checkpoint=Stopping(path, IDENTITY), interval=0.0).train()
    return Checkpoint(path, IDENTITY).read(), run


KEYS = ("stage", "steps", "elapsed", "began", "seed", "generator", "model", "critic", "estimator")
STATES = ("optimisers", "memory", "within")


@pytest.mark.parametrize("name", [*KEYS, *STATES])
@pytest.mark.parametrize("value", ["missing", -1, math.nan, torch.zeros(3), {"a": 1}])
def test_content_of_no_use_is_one_sentence(tmp_path, within, name, value):
    content, run = within
    spoiled = {key: held for key, held in content.items() if key != name}
    if not isinstance(value, str):
        spoiled[name] = value
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    torch.save(spoiled, checkpoint.path)
    with pytest.raises(BadInput, match=r"run\.pt is damaged: remove it, or give another path"):
        Trainer(run(), Schedule((1, 1, 2, 1)), checkpoint=checkpoint).train()


def test_an_optimiser_of_other_weights_and_a_memory_of_other_points_are_damage(tmp_path, within):
    content, run = within
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    state = content["optimisers"]["estimator"]
    number = next(iter(state["state"]))
    other = state["state"] | {number: state["state"][number] | {"exp_avg": torch.zeros(7)}}
    group = {name: value for name, value in state["param_groups"][0].items() if name != "initial_lr"}
    points = content["memory"]["points"]
    for spoiled in (
        {"optimisers": {"estimator": state | {"state": other}}},
        {"optimisers": {"estimator": state | {"param_groups": [group]}}},
        {"optimisers": {"estimator": state | {"param_groups": [group | {"initial_lr": "fast"}]}}},
        {"memory": content["memory"] | {"points": points[:, :1]}},
        {"memory": content["memory"] | {"targets": points[:, :1]}},
        {"memory": {"points": points}},
        {"memory": content["memory"] | {"points": points.double()}},
    ):
        torch.save(content | spoiled, checkpoint.path)
        with pytest.raises(BadInput, match="is damaged"):
            Trainer(run(), Schedule((1, 1, 2, 1)), checkpoint=checkpoint).train()
    torch.save(content, checkpoint.path)
    Trainer(run(), Schedule((1, 1, 2, 1)), checkpoint=checkpoint).train()
