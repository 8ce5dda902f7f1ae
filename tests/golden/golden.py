"""Golden outputs: how they are described, masked, compared with the fixtures, and frozen.

Freeze all fixtures, or some groups of them, from the repository's root; no test does this::

    python tests/golden/golden.py --freeze                  # every group, and every sentence
    python tests/golden/golden.py --freeze rest             # one group with its sentences
    python tests/golden/golden.py --freeze --sentences      # only the sentences: after a rewording

A fixture changes only in a commit of its own, which says why. There is one file for each group in
``fixtures/``, and one file ``sentences.json`` for the sentences of all of them: sentences may be reworded,
what machines read may not change.

``array`` in the description of an array says how it is compared:

- ``bytes``: shape, type and SHA-256; the first values are there to be looked at when the digest differs.
- ``close``: shape and type, and all values within the stated tolerance. For what depends on BLAS or FFT
  (interpolation, spectra) and for lossy media.
- ``shape``: shape and type only. For trained models and what is drawn from them.

Numbers in documents are equal to a relative error of 1e-9.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

FIXTURES = Path(__file__).with_name("fixtures")
SENTENCES = "sentences"
SENTENCE = "<sentence>"

# The name, in Python, of the parameter that is called "trust" in fixtures, keyed noise and digests. Documents
# are frozen under the latter name, so a renaming of the parameter changes this line and no fixture.
DISTRUST = "distrust"

_RELATIVE = 1e-9
# Fields that differ in every run, or with every version.
_MASKED = {
    *("at", "created", "ended", "expires", "revoked", "deleted", "since", "until", "closed", "stage"),
    *(
        "hash",
        "previous",
        "sha256",
        "keyid",
        "sig",
        "sfumato",
        "version_of_package",
        "ledger_id",
        "bytes_free",
    ),
    *("token", "pem", "access_key_id", "secret_access_key", "seconds", "digest_of_file"),
}
# Text that is stored and compared by the program, and so is no sentence whatever its length.
_VERBATIM = {"purpose", "command", "header", "dataset", "source"}
_HEX = re.compile(r"[0-9a-f]{16,}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?")
_TOKEN = re.compile(r"sfu_[A-Za-z0-9_-]+")


class Array(dict[str, Any]):
    """The description of an array, which is neither masked nor searched for sentences."""


def as_bytes(values: Any) -> Array:
    """Describe an array that is compared byte by byte."""
    values = np.ascontiguousarray(values)
    return Array(
        array="bytes",
        shape=list(values.shape),
        dtype=values.dtype.str,
        sha256=hashlib.sha256(values.tobytes()).hexdigest(),
        first=values.ravel()[:4].tolist(),
    )


def as_close(values: Any, tolerance: float) -> Array:
    """Describe an array whose values are compared within ``tolerance``, which is in the array's own unit."""
    values = np.ascontiguousarray(values)
    kept = values.astype("<f4") if values.dtype.kind == "f" else values
    return Array(
        array="close",
        shape=list(values.shape),
        dtype=values.dtype.str,
        tolerance=tolerance,
        stored=kept.dtype.str,
        values=base64.b64encode(zlib.compress(kept.tobytes(), 9)).decode(),
    )


def as_shape(values: Any) -> Array:
    """Describe an array of which only shape and type are compared."""
    values = np.asarray(values)
    return Array(array="shape", shape=list(values.shape), dtype=values.dtype.str)


def decoded(described: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the values of an array that :func:`as_close` described."""
    content = zlib.decompress(base64.b64decode(described["values"]))
    return np.frombuffer(content, described["stored"]).reshape(described["shape"])


def masked(document: Any, folder: Path | None = None, under: str = "") -> Any:
    """Return ``document`` without what differs from run to run.

    Masked are times, identifiers, keys, signatures, the hash chain, versions, and the path of ``folder``.
    """
    if isinstance(document, Array):
        return document
    if isinstance(document, dict):
        found = {}
        for name, value in document.items():
            wire = "trust" if name == DISTRUST else name
            found[_text(str(wire), folder)] = (
                f"<{name}>" if name in _MASKED and value is not None else masked(value, folder, name)
            )
        return found
    if isinstance(document, list | tuple):
        return [masked(value, folder, under) for value in document]
    if isinstance(document, str):
        return _text(document, folder, hexadecimal=under not in _VERBATIM)
    return document


def _text(text: str, folder: Path | None, *, hexadecimal: bool = True) -> str:
    if folder is not None:
        text = text.replace(str(folder), "<folder>")
    text = _TOKEN.sub("<token>", _TIME.sub("<time>", text))
    return _HEX.sub("<hex>", text) if hexadecimal else text


def without_sentences(document: Any, place: str = "") -> tuple[Any, dict[str, str]]:
    """Return ``document`` with a mark for each sentence, and the sentences by their places.

    A text of three words or more is a sentence. A list of nothing but text that holds one is one mark and one
    text of several lines, so that two notes may become one.
    """
    if isinstance(document, Array):
        return document, {}
    if isinstance(document, str) and document.count(" ") >= 2:
        return SENTENCE, {place: document}
    if isinstance(document, list):
        texts = [one for one in document if isinstance(one, str)]
        if len(texts) == len(document) and any(one.count(" ") >= 2 for one in texts):
            return SENTENCE, {place: "\n".join(texts)}
    pairs: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        pairs = list(document.items())
    elif isinstance(document, list):
        pairs = list(enumerate(document))
    else:
        return document, {}
    marked, found = [], {}
    for name, value in pairs:
        if name in _VERBATIM:
            marked.append(value)
            continue
        kept, inside = without_sentences(value, f"{place}/{name}")
        marked.append(kept)
        found |= inside
    if isinstance(document, dict):
        return dict(zip(document, marked, strict=True)), found
    return marked, found


def differences(expected: Any, actual: Any, place: str = "") -> list[str]:
    """Return what differs between two documents, one line for each place."""
    if isinstance(expected, dict) and expected.get("array") in ("bytes", "close", "shape"):
        return _array_differences(expected, actual, place)
    if isinstance(expected, dict) and isinstance(actual, dict):
        lines = [f"{place}/{name} is missing" for name in expected if name not in actual]
        lines += [f"{place}/{name} is new: {actual[name]!r:.200}" for name in actual if name not in expected]
        for name in expected:
            if name in actual:
                lines += differences(expected[name], actual[name], f"{place}/{name}")
        return lines
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for at, pair in pairs for line in differences(*pair, f"{place}/{at}")]
    if isinstance(expected, float) and isinstance(actual, float):
        same = math.isclose(expected, actual, rel_tol=_RELATIVE)
        same = same or (math.isnan(expected) and math.isnan(actual))
    else:
        same = type(expected) is type(actual) and expected == actual
    return [] if same else [f"{place} was {expected!r:.300} and is {actual!r:.300}"]


def _array_differences(expected: dict[str, Any], actual: Any, place: str) -> list[str]:
    if not isinstance(actual, dict) or set(expected) != set(actual):
        return [f"{place} was an array ({expected['array']}) and is {actual!r:.200}"]
    exact = [name for name in expected if name not in ("values", "first")]
    lines = [
        f"{place}/{name} was {expected[name]!r} and is {actual[name]!r}"
        for name in exact
        if expected[name] != actual[name]
    ]
    if lines and expected["array"] == "bytes":
        lines.append(f"{place} began with {expected['first']} and begins with {actual['first']}")
    if not lines and expected["array"] == "close":
        before, now = (decoded(one).astype(np.float64) for one in (expected, actual))
        furthest = float(np.abs(before - now).max(initial=0.0))
        if not furthest <= expected["tolerance"]:
            lines.append(f"{place} differs by {furthest:g}, and {expected['tolerance']:g} is accepted")
    return lines


def groups() -> dict[str, Any]:
    """Return the functions that produce the groups, by the names of their fixtures."""
    import door_cases
    import python_cases

    return python_cases.GROUPS | door_cases.GROUPS


def produced(group: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the cases of ``group`` in the empty ``folder``: their documents, and the sentences in them."""
    mask = os.umask(0o022)
    try:
        with mock.patch.dict(os.environ, {"SFUMATO_HOME": str(folder / "home"), "COLUMNS": "100"}):
            for name in ("SFUMATO_LEDGER", "SFUMATO_PASSPHRASE", "SFUMATO_DATA"):
                os.environ.pop(name, None)
            made = groups()[group](folder)
    finally:
        os.umask(mask)
    made = masked(json.loads(json.dumps(made, default=_plain), object_hook=_arrays), folder)
    documents, sentences = {}, {}
    for name, document in made.items():
        documents[name], found = without_sentences(document)
        sentences |= {f"{group}/{name}{place}": text for place, text in found.items()}
    return documents, sentences


def _plain(value: Any) -> Any:
    """Return a number of NumPy as a number of Python."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _arrays(document: dict[str, Any]) -> dict[str, Any]:
    return Array(document) if document.get("array") in ("bytes", "close", "shape") else document


def frozen(name: str) -> dict[str, Any]:
    """Return the documents of the fixture ``name``."""
    file = FIXTURES / f"{name}.json"
    return dict(json.loads(file.read_text("utf-8"))) if file.exists() else {}


def frozen_sentences() -> dict[str, str]:
    """Return the frozen sentences by their places; their file holds each once, with its places."""
    return {place: text for text, places in frozen(SENTENCES).items() for place in places}


def freeze(wanted: list[str], *, only_sentences: bool = False) -> None:
    """Write the fixtures of the groups ``wanted``, all unless there are any, or only their sentences."""
    sentences = frozen_sentences()
    for group in wanted or groups():
        with tempfile.TemporaryDirectory() as folder:
            documents, found = produced(group, Path(folder).resolve())
        sentences = {place: text for place, text in sentences.items() if not place.startswith(f"{group}/")}
        sentences |= found
        if not only_sentences:
            _write(group, documents, depth=2)
    texts: dict[str, list[str]] = {}
    for place, text in sorted(sentences.items()):
        texts.setdefault(text, []).append(place)
    _write(SENTENCES, texts, depth=1)


def _write(name: str, document: dict[str, Any], depth: int) -> None:
    (FIXTURES / f"{name}.json").write_text(_lines(document, depth) + "\n", "utf-8")


def _lines(document: Any, depth: int) -> str:
    """Return ``document`` as JSON, with a line for each thing at ``depth``."""
    if depth == 0 or not isinstance(document, dict) or not document:
        return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    inside = (
        f"{json.dumps(key, ensure_ascii=False)}: {_lines(document[key], depth - 1)}"
        for key in sorted(document)
    )
    return "{\n" + ",\n".join(inside) + "\n}"


if __name__ == "__main__":
    given = sys.argv[1:]
    if "--freeze" not in given:
        sys.exit(__doc__)
    # This file runs as __main__, and the cases import it by its name: one of the two must not be another.
    sys.modules["golden"] = sys.modules["__main__"]
    freeze([one for one in given if not one.startswith("--")], only_sentences="--sentences" in given)
