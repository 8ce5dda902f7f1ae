"""Pickles of arrays: what NumPy wrote comes back, and nothing that a pickle names is ever run."""

import collections
import os
import pickle
import struct

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.learners.networks import read_arrays

RNG = np.random.default_rng(12)


def opcodes(*parts):
    """A pickle of protocol 3 from its parts."""
    return b"\x80\x03" + b"".join(parts) + b"."


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f8", "<f2", "<i8", ">i2", "u1", "?"])
def test_arrays_come_back_as_they_were(kind, protocol) -> None:
    made = (9 * RNG.standard_normal((3, 4, 2))).astype(kind)
    given = {
        "one": {"kernel": made, "bias": made[:, 0, 0].copy(), "turned": np.asfortranarray(made)},
        "more": [made[:0], np.array(made[0, 0, 0]), 3, -0.5, "word"],
    }
    found = read_arrays(pickle.dumps(given, protocol=protocol), "it")
    assert list(found) == ["one", "more"]
    for before, after in [
        *((given["one"][name], found["one"][name]) for name in ("kernel", "bias", "turned")),
        *zip(given["more"][:2], found["more"][:2], strict=True),
    ]:
        assert after.dtype == before.dtype
        assert after.flags.owndata or after.base.flags.owndata
        assert after.flags.writeable
        np.testing.assert_array_equal(after, before)
    assert found["more"][2:] == [3, -0.5, "word"]


def test_the_old_name_of_numpys_function_is_known() -> None:
    """Files written before NumPy 2 say numpy.core where later ones say numpy._core."""
    content = pickle.dumps(np.arange(3.0), protocol=3)
    assert b"numpy._core.multiarray" in content
    np.testing.assert_array_equal(
        read_arrays(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"), "it"),
        np.arange(3.0),
    )


class Calls:
    """What pickles as a call."""

    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.mkdir, os.makedirs, eval, exec], ids=lambda each: each.__name__)
def test_a_call_is_refused_and_does_not_run(function, protocol, tmp_path) -> None:
    ran = tmp_path / "ran"
    argument = f"__import__('os').mkdir({str(ran)!r})" if function in (eval, exec) else str(ran)
    content = pickle.dumps({"kernel": np.ones(2), "more": Calls(function, argument)}, protocol=protocol)
    with pytest.raises(
        BadInput, match=r"^the file is not read, since it (names [\w.]+|is damaged .*): "
    ) as wrong:
        read_arrays(content, "the file")
    assert not ran.exists()
    assert str(wrong.value).count(". ") == 0
    pickle.loads(content)
    assert ran.exists(), "the pickle would have run elsewhere"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (np.array([{"a": 1}], dtype=object), "an array that is not plain"),
        (np.array(["word"]), "something else than plain numbers"),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "something else than plain numbers"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "something else than plain numbers"),
        (np.array([1j]), "something else than plain numbers"),
        (collections.OrderedDict(a=1), "names collections.OrderedDict"),
        (np.float64(1.0), "names numpy"),
        ({"a": np.dtype("f4")}, "of type Kind"),
        ({"a": (1, 2)}, "of type tuple"),
        ({"a": b"bytes"}, "of type bytes"),
        ({"a": None}, "of type NoneType"),
        ({"a": True}, "of type bool"),
        ({1: "a"}, "keys are no names"),
        (1j, "names builtins.complex"),
        (frozenset({1}), "of type frozenset"),
        ({"a": [np.ndarray]}, "of type object"),
    ],
)
def test_whatever_else_is_refused(given, reason) -> None:
    with pytest.raises(BadInput, match=reason):
        read_arrays(pickle.dumps(given, protocol=4), "it")


def test_what_holds_itself_or_would_grow_without_end_is_refused() -> None:
    itself: list = []
    itself.append(itself)
    many: list = []
    for _ in range(60):
        many = [many, many]
    for given in (itself, many):
        with pytest.raises(BadInput, match="holds one list in two places"):
            read_arrays(pickle.dumps(given), "it")
    deep = opcodes(b"]" * 5000, b"a" * 4999)
    with pytest.raises(BadInput, match=r"is damaged \(RecursionError\)"):
        read_arrays(deep, "it")


ARRAY = b"cnumpy._core.multiarray\n_reconstruct\n"
KIND = b"cnumpy\ndtype\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps(np.arange(9.0), protocol=4)[:-9],
        # A state for the class itself, for something plain, and for nothing; names set on the class.
        opcodes(ARRAY, b"}", b"b"),
        opcodes(ARRAY, b"N}", text("made"), text("word"), b"s\x86b"),
        opcodes(KIND, b"N}", text("made"), text("word"), b"s\x86b"),
        opcodes(text("word"), b"N}", text("upper"), text("word"), b"s\x86b"),
        opcodes(ARRAY, b")R"),
        # A kind or a shape that is none, and a persistent name.
        opcodes(ARRAY, b")R", b"(K\x01K\x02\x85NI00\n", b"C\x00tb"),
        opcodes(ARRAY, b")R", b"(K\x01K\x02", KIND, text("f4"), b"\x85RI00\n", b"C\x08" + bytes(8), b"tb"),
        opcodes(b"Pname\n"),
        opcodes(b"\x82\x01"),
    ],
)
def test_damaged_and_forged_pickles_are_refused(content) -> None:
    with pytest.raises(BadInput, match="the file is not read, since it "):
        read_arrays(content, "the file")
    np.testing.assert_array_equal(read_arrays(pickle.dumps(np.ones(2), protocol=4), "it"), np.ones(2))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((3,), "do not fit its shape"),
        ((-1,), "no length"),
        ((1 << 40, 1 << 40), "do not fit"),
        ((0,), "do not fit"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(shape, reason) -> None:
    sides = b"(" + b"".join(b"\x8a\x08" + side.to_bytes(8, "little", signed=True) for side in shape) + b"t"
    content = opcodes(
        ARRAY, b")R", b"(K\x01", sides, KIND, text("f4"), b"\x85RI00\n", b"C\x08" + bytes(8), b"tb"
    )
    with pytest.raises(BadInput, match=reason):
        read_arrays(content, "it")
    fits = content.replace(sides, b"(K\x02t")
    np.testing.assert_array_equal(read_arrays(fits, "it"), np.zeros(2, dtype=np.float32))
