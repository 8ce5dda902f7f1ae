"""Compare what the package does with what was frozen, and find every public name and command in a case."""

import functools
import inspect

import pytest

pytest.importorskip("torch", reason="the extra learn is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("grpc_health", reason="the extra serve is not installed")
pytest.importorskip("botocore", reason="botocore is not installed")
pytest.importorskip("av", reason="the extra media is not installed")
import door_cases
import python_cases
import typer.main

import golden
import sfumato as sf

# What is in the package's front door and releases nothing by itself.
NO_CASE_OF_ITS_OWN = {
    *("__version__", "BadInput", "SfumatoError", "Keyed", "Seeded", "Release", "Neighbours", "Unit"),
    *("ClipNoise", "MediaMechanisms"),  # in the releases of videos
    *("audit", "load_model", "mechanism", "plan", "protect", "report"),  # verbs, also commands or options
    *("federate", "learn", "publish", "verify"),  # what the commands of these names call
    *("Claim", "Evidence", "Guarantee", "Statement", "Ledger"),  # groups of their own
    *("Projection", "SensitivityMap", "FrameNoise", "RefinedPublisher"),  # in groups of others
}


@pytest.fixture(scope="module")
def produced(tmp_path_factory):
    """The documents and sentences of a group, made once."""

    @functools.cache
    def of(group):
        return golden.produced(group, tmp_path_factory.mktemp(group).resolve())

    return of


# Both parts of a group run one after the other, and so in one process.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", ["documents", "sentences"])
@pytest.mark.parametrize("group", sorted(golden.groups()))
def test_outputs_are_those_that_were_frozen(group, part, produced):
    documents, sentences = produced(group)
    if part == "documents":
        expected, actual = golden.frozen(group), documents
    else:
        every = golden.frozen_sentences()
        expected = {place: text for place, text in every.items() if place.startswith(f"{group}/")}
        actual = sentences
    assert expected, f"{group} was never frozen; see golden.py"
    found = golden.differences(expected, actual)
    assert not found, "\n".join(found[:40])


def test_every_fixture_is_of_a_group_and_all_together_are_small():
    files = list(golden.FIXTURES.iterdir())
    names = {file.stem for file in files if file.suffix == ".json"}
    assert names == {*golden.groups(), golden.SENTENCES}
    assert sum(file.stat().st_size for file in files) < 1_000_000


def test_every_public_name_has_a_case():
    cases = [
        *python_cases.MECHANISMS.values(),
        *python_cases.PICTURES.values(),
        *python_cases.SOUNDS.values(),
    ]
    cases += [*python_cases.TRANSFORMS.values(), *python_cases.PUBLISHERS.values()]
    covered = {case[0] for case in cases}
    assert {name for name in sf.__all__ if name not in NO_CASE_OF_ITS_OWN} == covered


def test_every_parameter_of_a_case_is_spelled_out():
    known = {"randomness", "shape"}
    for table in ("MECHANISMS", "PICTURES", "SOUNDS", "TRANSFORMS", "PUBLISHERS"):
        for case, (kind, given, *_) in getattr(python_cases, table).items():
            parameters = inspect.signature(getattr(sf, kind)).parameters
            assert set(parameters) - set(given) <= known, case


def test_every_name_on_the_command_line_has_a_case():
    doors = door_cases.inner()
    assert set(doors.mechanisms) == set(door_cases.BY_NAME)
    assert set(doors.learners) == set(door_cases.LEARNERS)
    assert set(doors.publishers) == set(door_cases.PUBLISHERS)


def test_every_command_has_a_case():
    asked = {
        one["command"]
        for group in ("commands", "command_plans", "trained")
        for one in golden.frozen(group).values()
        if one["code"] == 0
    }

    def has_case(words):
        if words[0] == "serve":
            return any(one.startswith("serve ") and f" {words[-1]} " in one for one in asked)
        by_default = words[:-1] if words[-1] == "page" else words
        return any(f"{one} ".startswith(" ".join(by_default) + " ") for one in asked)

    missing = [
        " ".join(words)
        for words in _commands(typer.main.get_command(door_cases.inner().app))
        if not has_case(words)
    ]
    assert missing == []


def test_the_comparison_notices_what_it_should():
    kept = {"a": 1.0, "b": [golden.as_bytes([1.0, 2.0]), golden.as_close([0.5], 0.1), golden.as_shape([1])]}
    assert golden.differences(kept, kept) == []
    for changed in (
        {"a": 1.0 + 1e-6, "b": kept["b"]},
        {"a": 1, "b": kept["b"]},
        {"b": kept["b"]},
        kept | {"c": None},
        {"a": 1.0, "b": [golden.as_bytes([1.0, 2.5]), *kept["b"][1:]]},
        {"a": 1.0, "b": [kept["b"][0], golden.as_close([0.7], 0.1), kept["b"][2]]},
        {"a": 1.0, "b": [*kept["b"][:2], golden.as_shape([1, 2])]},
        {"a": 1.0, "b": kept["b"][:2]},
    ):
        assert golden.differences(kept, changed), changed
    near = [kept["b"][0], golden.as_close([0.55], 0.1), kept["b"][2]]
    assert golden.differences(kept, {"a": 1.0 + 1e-12, "b": near}) == []


def test_masks_keep_commitments_and_nothing_of_one_run(tmp_path):
    commitment = "x.npz (content " + "ab" * 32 + ")"
    row = {
        "purpose": commitment,
        "hash": "ab" * 32,
        "at": "2026-01-01T00:00:00",
        "id": "cd" * 12,
        "file": f"{tmp_path}/x",
    }
    found = golden.masked(row, tmp_path)
    assert found == {
        "purpose": commitment,
        "hash": "<hash>",
        "at": "<at>",
        "id": "<hex>",
        "file": "<folder>/x",
    }
    assert golden.without_sentences(
        {"purpose": commitment, "notes": ["two", "one more note"], "n": "a b"}
    ) == (
        {"purpose": commitment, "notes": "<sentence>", "n": "a b"},
        {"/notes": "two\none more note"},
    )


def _commands(command, path=()):
    """The words of every command."""
    command = getattr(command, "loaded", command)
    for name, inside in getattr(command, "commands", {}).items():
        yield from _commands(inside, (*path, name))
    if not getattr(command, "commands", None):
        yield path
