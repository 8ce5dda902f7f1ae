"""Pickles of arrays: what NumPy wrote comes back, and nothing that a pickle names is ever run."""

import collections
import os
import pickle

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.learners.networks import read_arrays

RNG = np.random.default_rng(12)


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
        assert after.dtype == before.dtype.newbyteorder("=")
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
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps(np.arange(9.0), protocol=4)[:-9],
        pickle.dumps({"a": np.float64(1.0)}),
        pickle.dumps(collections.OrderedDict(a=1)),
        pickle.dumps(1j),
        b"\x80\x03Pname\n.",
        b"\x80\x03\x82\x01.",
    ],
)
def test_damaged_pickles_and_other_names_are_refused(content) -> None:
    with pytest.raises(BadInput, match=r"the file is not read, since it (names|is damaged)"):
        read_arrays(content, "the file")
