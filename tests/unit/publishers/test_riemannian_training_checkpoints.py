"""Checkpoints: whole, private, and of no use to another model."""

import os
import pickle
import resource
import stat

import numpy as np
import pytest
import torch

from sfumato.errors import BadInput
from sfumato.publishers.riemannian.riemannian_training import Checkpoint, fingerprint

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
        ({"decoder": "conv"}, "has decoder None, and 'conv' is asked for"),
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
    with pytest.raises(BadInput, match="no checkpoint of this version"):
        Checkpoint(tmp_path / "run.pt", IDENTITY).read()


def test_nothing_in_a_file_is_run(tmp_path):
    class Runs:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "made"),))

    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    checkpoint.write({"x": Runs()})
    with pytest.raises(pickle.UnpicklingError):
        checkpoint.read()
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


def test_every_cut_and_flipped_byte_is_noticed(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.pt", IDENTITY)
    checkpoint.write({"steps": 3, "weights": torch.arange(4.0)})
    whole = checkpoint.path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 150).tolist():
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        for spoiled in (bytes(changed), whole[:place]):
            checkpoint.path.write_bytes(spoiled)
            with pytest.raises(BadInput, match=r"is damaged|no checkpoint of this version"):
                checkpoint.read()


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


def test_a_link_at_the_old_name_of_unfinished_files_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("stays")
    (tmp_path / "run.pt.part").symlink_to(tmp_path / "mine")
    Checkpoint(tmp_path / "run.pt", IDENTITY).write({"steps": 1})
    assert (tmp_path / "mine").read_text() == "stays"
