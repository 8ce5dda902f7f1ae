"""Bad input never yields a release: exit code 2, one sentence, no output, nothing left behind."""

import gzip
import io
import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

BOUNDED = ("--epsilon", "1", "--clip", "1")
TRUST = ("--mechanism", "trust-adaptive", "--clip", "1")
SCHEMA = """
[columns.age]
kind = "numeric"
bounds = [0, 110]
[columns.sex]
kind = "categorical"
categories = ["f", "m"]
"""


def array(**changes):
    X = np.arange(12.0).reshape(4, 3)
    for place, value in changes.items():
        X[tuple(map(int, place.split("_")[1:]))] = value
    return npy(X)


def npy(X, pickled=False):
    file = io.BytesIO()
    np.save(file, X, allow_pickle=pickled)
    return file.getvalue()


def npz(compressed=False, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def bomb():
    """One and a half gigabytes of zeros in seven megabytes; the header tells the truth about them."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        header = {"descr": "<f8", "fortran_order": False, "shape": (96 << 11, 1 << 10)}
        np.lib.format.write_array_header_1_0(member, header)
        zeros = bytes(1 << 24)
        for _ in range(96):
            member.write(zeros)
    return file.getvalue()


def liar():
    """An archive whose header announces fewer rows than are packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", array() + bytes(1 << 20))
    return file.getvalue()


class Dangerous:
    def __reduce__(self):
        return open, ("pwned", "w")


# What is wrong, the file, and words of the answer.
FILES = [
    ("NaN", "X.npy", array(at_2_1=np.nan), "row 3, column 2 holds NaN"),
    ("infinity", "X.npy", array(at_0_0=np.inf), "row 1, column 1 holds an infinity"),
    ("minus infinity", "X.npy", array(at_3_2=-np.inf), "row 4, column 3 holds an infinity"),
    ("no rows", "X.npy", npy(np.ones((0, 3))), "X.npy has no rows."),
    ("no columns", "X.npy", npy(np.ones((3, 0))), "X.npy has no columns."),
    ("no bytes", "X.npy", b"", "X.npy is empty."),
    ("one axis", "X.npy", npy(np.ones(5)), "shape (5,)"),
    ("a single number", "X.npy", npy(np.float64(3)), "a single number"),
    ("object dtype", "X.npy", npy(np.array([[1, "a"]], object), True), "pickled Python objects"),
    ("complex", "X.npy", npy(np.ones((2, 2), complex)), "dtype complex128"),
    ("text", "X.npy", npy(np.array([["a", "b"]])), "dtype str"),
    ("structured", "X.npy", npy(np.zeros(2, [("a", "f8")])), "structured"),
    ("truncated npy", "X.npy", array()[:-1], "X.npy is truncated"),
    ("truncated npz", "X.npz", npz(X=np.ones((99, 9)))[:-80], "X.npz is truncated or damaged"),
    ("not NumPy", "X.npy", b"age,sex\n1,f\n", "X.npy is not a NumPy file"),
    ("a pickle", "X.npy", pickle.dumps(Dangerous()), "X.npy is not a NumPy file"),
    ("pickled inside", "X.npz", npz(X=np.array([[Dangerous()]])), "never loaded"),
    ("more data than announced", "X.npz", liar(), "array 'X' of X.npz is followed by other bytes"),
    ("no arrays", "X.npz", npz(), "X.npz holds no arrays."),
    ("no such file", "Y.npy", array(), "X.npy does not exist."),
]
OPTIONS = [
    (
        "distrust above 1",
        [*TRUST, "--epsilon", "1", "8", "--distrust", "1.5"],
        "--distrust must lie between 0 and 1, not 1.5",
    ),
    (
        "trust",
        [*TRUST, "--epsilon", "1", "8", "--trust", "0.5"],
        "there is no option --trust; did you mean --distrust?",
    ),
    (
        "distrust below 0",
        [*TRUST, "--epsilon", "1", "8", "--distrust", "-0.1"],
        "--distrust must lie between 0 and 1",
    ),
    (
        "distrust of nan",
        [*TRUST, "--epsilon", "1", "8", "--distrust", "nan"],
        "--distrust must lie between 0 and 1",
    ),
    ("ε of 0", ["--epsilon", "0", "--clip", "1"], "--epsilon must be a positive number"),
    ("negative ε", ["--epsilon", "-1", "--clip", "1"], "--epsilon must be a positive number"),
    ("infinite ε", ["--epsilon", "inf", "--clip", "1"], "--epsilon must be a positive number"),
    ("δ of 0", [*BOUNDED, "--delta", "0"], "--delta must lie strictly between 0 and 1"),
    ("δ of 1", [*BOUNDED, "--delta", "1"], "--delta must lie strictly between 0 and 1"),
    ("reversed ε", [*TRUST, "--epsilon", "8", "1"], "is reversed"),
    ("no bound", ["--epsilon", "1"], "--clip 1.0"),
    ("a clip of 0", ["--epsilon", "1", "--clip", "0"], "--clip must be a positive number"),
    (
        "reversed bounds",
        ["--epsilon", "1", "--bounds", "1", "0"],
        "lower bound must lie below its upper bound",
    ),
    ("an α of 0", [*BOUNDED, "--alpha", "0"], "--alpha must be a number and not zero"),
    ("a flip of a half", ["--mechanism", "binary-encoding", "--flip", "0.5"], "--flip must lie below 0.5"),
    ("codes beyond the categories", ["--mechanism", "randomised-response", "--epsilon", "1"], "codes 0 to 1"),
    ("unknown neighbours", [*BOUNDED, "--neighbours", "add/remove"], "'replace' or 'zero-out'"),
]
TABLES = [
    ("ragged", "t.csv", b"age,sex\n1,f\n2\n", SCHEMA, "another length than its header in data row 2"),
    (
        "unknown column in the schema",
        "t.csv",
        b"age,gender\n1,f\n",
        SCHEMA,
        "'sex', which the table does not have",
    ),
    (
        "undeclared column",
        "t.csv",
        b"age,sex,name\n1,f,x\n",
        SCHEMA,
        "'name' that the schema does not declare",
    ),
    ("a header alone", "t.csv", b"age,sex\n", SCHEMA, "t.csv has no data rows."),
    ("NaN", "t.csv", b"age,sex\n1,f\nnan,f\n", SCHEMA, "column 'age' is not as declared in data row 2"),
    ("infinity", "t.csv", b"age,sex\n-inf,f\n", SCHEMA, "column 'age' is not as declared in data row 1"),
    ("an empty cell", "t.csv", b"age,sex\n,f\n", SCHEMA, "column 'age' is empty in data row 1"),
    ("text for a number", "t.csv", b"age,sex\nold,f\n", SCHEMA, "'age' is not as declared in data row 1"),
    ("unknown category", "t.csv", b"age,sex\n1,x\n", SCHEMA, "column 'sex' is not as declared in data row 1"),
    ("a gzip that is none", "t.csv.gz", b"age,sex\n1,f\n", SCHEMA, "cannot be read as CSV"),
    (
        "a cut gzip",
        "t.csv.gz",
        gzip.compress(b"age,sex\n" + b"1,f\n" * 9999)[:-9],
        SCHEMA,
        "cannot be read as CSV",
    ),
    ("a gzip of zeros", "t.csv.gz", gzip.compress(bytes(1 << 26)), SCHEMA, "which is no header"),
    ("a Parquet that is none", "t.parquet", b"age,sex\n1,f\n", SCHEMA, "cannot be read as Parquet"),
    ("a schema that is none", "t.csv", b"age,sex\n1,f\n", "columns = ", "is not valid TOML"),
    ("no bounds", "t.csv", b"age\n1\n", '[columns.age]\nkind = "numeric"', "column 'age' has no bounds"),
    ("nothing left", "t.csv", b"age\n1\n", '[columns.age]\nkind = "identifier"', "nothing to release"),
]


@pytest.mark.parametrize(("name", "content", "said"), [c[1:] for c in FILES], ids=[c[0] for c in FILES])
def test_files_that_cannot_be_released(called, folder, name, content, said):
    (folder / name).write_bytes(content)
    suffix = name.removeprefix(name[0])
    assert said in called("protect", f"X{suffix}", "-o", f"out{suffix}", *BOUNDED).sentence
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize(("options", "said"), [c[1:] for c in OPTIONS], ids=[c[0] for c in OPTIONS])
def test_options_that_cannot_be_used(called, folder, options, said):
    (folder / "X.npy").write_bytes(array())
    assert said in called("protect", "X.npy", "-o", "out.npy", *options).sentence


def test_the_installed_command_answers_the_same(command, folder):
    """Process by process, for two files, an option and a table."""
    for case, name, content, said in FILES:
        if case in ("NaN", "pickled inside"):
            (folder / name).write_bytes(content)
            assert said in command("protect", name, "-o", f"out{name[1:]}", *BOUNDED).sentence
    (folder / "X.npy").write_bytes(array())
    for case, options, said in OPTIONS:
        if case == "no bound":
            assert said in command("protect", "X.npy", "-o", "out.npy", *options).sentence
    (folder / "t.toml").write_text(SCHEMA)
    for case, name, content, _, said in TABLES:
        if case == "ragged":
            (folder / name).write_bytes(content)
            ran = command("protect", name, "-o", f"out{name[1:]}", "--schema", "t.toml", "--epsilon", "1")
            assert said in ran.sentence


@pytest.mark.parametrize(
    ("name", "content", "schema", "said"), [c[1:] for c in TABLES], ids=[c[0] for c in TABLES]
)
def test_tables_that_cannot_be_released(called, folder, name, content, schema, said):
    (folder / name).write_bytes(content)
    (folder / "t.toml").write_text(schema)
    ran = called("protect", name, "-o", "out" + name[1:], "--schema", "t.toml", "--epsilon", "1")
    assert said in ran.sentence


def test_a_zip_bomb_is_refused_before_it_is_unpacked(command, folder):
    (folder / "X.npz").write_bytes(bomb())
    assert (folder / "X.npz").stat().st_size < 20e6
    sentence = command("protect", "X.npz", "-o", "out.npz", *BOUNDED).sentence
    assert "unpacks to 1.5 GiB" in sentence
    assert "np.savez" in sentence


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epsilon", "1"], "a table needs --schema"),
        (["--schema", "t.toml"], "gaussian needs a privacy budget (--epsilon 1)."),
        (["--schema", "t.toml", *BOUNDED], "leave out --clip and --bounds"),
        (
            ["--schema", "t.toml", "--epsilon", "1", "--bounds-from-data"],
            "--bounds-from-data is for .npy and .npz",
        ),
        (["--schema", "t.toml", "--epsilon", "1", "--alpha", "1"], "--alpha is for .npy and .npz"),
        (["--schema", "t.toml", "--epsilon", "1", "--array", "X"], "--array is for .npy and .npz"),
        (["--schema", "no.toml", "--epsilon", "1"], "no.toml does not exist."),
        (["--schema", "t.toml", "--epsilon", "0"], ", not 0.0."),
        (
            ["--schema", "t.toml", "--epsilon", "1", "--delta", "2"],
            "--delta must lie strictly between 0 and 1",
        ),
        (
            ["--schema", "t.toml", "--epsilon", "1", "--mechanism", "randomised-response"],
            "not by RandomisedResponse",
        ),
        (
            ["--schema", "t.toml", "--epsilon-file", "e.npy", "--mechanism", "personalised"],
            "not by Personalised",
        ),
        (["--schema", "t.toml", "--epsilon", "1", "--neighbours", "zero-out"], "cannot be added"),
        (["--schema", "t.toml", "--epsilon", "8", "1", "--mechanism", "trust-adaptive"], "is reversed"),
    ],
)
def test_tables_with_options_that_do_not_fit(called, folder, words, said):
    (folder / "t.csv").write_text("age,sex\n1,f\n2,m\n")
    (folder / "t.toml").write_text(SCHEMA)
    np.save(folder / "e.npy", np.ones(2))
    assert said in called("protect", "t.csv", "-o", "out.csv", *words).sentence


@pytest.mark.parametrize("kind", ["null", "infinity", "nested"])
def test_parquet_cells_that_cannot_be_released(called, folder, kind):
    cells = {"null": [1.0, None], "infinity": [1.0, float("inf")], "nested": [[1.0], [2.0]]}[kind]
    pq.write_table(pa.table({"age": cells, "sex": ["f", "m"]}), folder / "t.parquet")
    (folder / "t.toml").write_text(SCHEMA)
    ran = called("protect", "t.parquet", "-o", "out.parquet", "--schema", "t.toml", "--epsilon", "1")
    assert "column 'age'" in ran.sentence


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        (np.ones(3), "ε was declared for 3 records, and X.npy holds 4"),
        (np.ones(5), "ε was declared for 5 records, and X.npy holds 4"),
        (np.array([1.0, 1.0, 0.0, 1.0]), "--epsilon must be one positive number"),
        (np.array([1.0, np.nan, 1.0, 1.0]), "--epsilon must be one positive number"),
        (np.ones((4, 1)), "must hold one ε for each record"),
    ],
)
def test_budgets_that_do_not_fit_their_records(called, folder, budgets, said):
    (folder / "X.npy").write_bytes(array())
    np.save(folder / "e.npy", budgets)
    words = ("--mechanism", "personalised", "--epsilon-file", "e.npy", "--clip", "1")
    assert said in called("protect", "X.npy", "-o", "out.npy", *words).sentence


def test_budgets_come_from_one_place(called, folder):
    (folder / "X.npy").write_bytes(array())
    np.save(folder / "e.npy", np.ones(4))
    words = ("--mechanism", "personalised", "--epsilon-file", "e.npy", "--epsilon", "1", "--clip", "1")
    sentence = called("protect", "X.npy", "-o", "out.npy", *words).sentence
    assert sentence == "give either --epsilon or --epsilon-file, not both."


@pytest.mark.parametrize(
    ("mechanism", "bad", "options"),
    [
        (sf.Gaussian(1.0, clip=1.0), np.nan, {}),
        (sf.AdditiveNoise(), np.inf, {}),
        (sf.RandomisedResponse(1.0), 2.0, {}),
        (sf.RandomProjection(2), np.nan, {}),
        (sf.Gaussian(1.0), np.nan, {"bounds_from_data": True}),
    ],
    ids=str,
)
def test_the_last_row_is_checked_before_the_first_noise_is_drawn(folder, mechanism, bad, options):
    X = np.zeros((400_000, 8))
    X[-1, 1] = bad
    np.save(folder / "X.npy", X)
    stages = []
    with pytest.raises(sf.BadInput, match="row 400000, column 2"):
        sf.protect("X.npy", "out.npy", mechanism, report=lambda stage, _: stages.append(stage), **options)
    assert stages
    assert "drawing" not in stages
    assert [file.name for file in folder.iterdir()] == ["X.npy"]
