"""Speaker and word recognition before and after a release of recordings.

A guarantee for a window of 20 ms is none for a voice, which is in every window. These attacks say what is
left of it. One attacker has clean recordings of every speaker, one has protected recordings whose speaker is
known; both name the speaker of protected recordings that neither has heard. The same recogniser on words says
what the release is still good for.

**Features** are statistics of mel cepstra.

Frames of 32 ms every 10 ms, power in 24 triangular mel bands up to 4 kHz, its logarithm, and the first 14
coefficients of a cosine transform (Davis & Mermelstein 1980). A voice is described by their means, deviations
and the deviations of their steps over a recording; a word by their means over twelve equal parts of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct

from sfumato.audits.findings import Finding
from sfumato.errors import BadInput
from sfumato.mechanisms import whole
from sfumato.media.audio import hertz, mel

__all__ = ["speaker_recognition"]

Floats = NDArray[np.float64]

_FRAME, _STEP = 0.032, 0.010  # seconds
_BANDS, _KEPT, _PARTS = 24, 14, 12
_LOWEST, _HIGHEST = 80.0, 4000.0
# Below the power of the last bit of 16; silence has a logarithm too.
_SILENCE = 1e-9

_CLEAN = "has clean recordings of every {kind} and names the {kind} of protected ones"
_SAME = "has protected recordings whose {kind} is known and names the {kind} of others"
_BEFORE = "has clean recordings of every {kind} and names the {kind} of other clean ones: before protection"


def cepstra(clip: Floats, rate: int) -> Floats:
    """Return mel cepstra (frames, 14) of a clip (n,); one shorter than a frame is followed by silence."""
    size, step = round(_FRAME * rate), round(_STEP * rate)
    padded = np.pad(clip, (0, max(0, size - clip.size)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::step] * np.hanning(size)
    power = np.square(np.abs(np.fft.rfft(frames, axis=1))) @ _filters(size, rate).T / size
    return np.asarray(dct(np.log(power + _SILENCE), type=2, axis=1, norm="ortho")[:, :_KEPT])


def voice_features(clip: Floats, rate: int) -> Floats:
    """Return the features (42,) that stay the same all through a recording."""
    rows = cepstra(clip, rate)
    steps = np.diff(rows, axis=0) if len(rows) > 1 else np.zeros((1, rows.shape[1]))
    return np.concatenate([rows.mean(axis=0), rows.std(axis=0), steps.std(axis=0)])


def word_features(clip: Floats, rate: int) -> Floats:
    """Return the features (169,) of the course of a recording of any length, and its length in seconds."""
    rows = cepstra(clip, rate)
    edges = np.linspace(0, len(rows), _PARTS + 1).astype(int)
    parts = [
        rows[min(start, len(rows) - 1) : max(stop, start + 1)].mean(axis=0) for start, stop in pairwise(edges)
    ]
    return np.concatenate([*parts, [clip.size / rate]])


def clips_of(recordings: Sequence[Any], what: str) -> list[Floats]:
    """Return recordings as clips (n,), channels averaged; raise if empty or not finite."""
    clips = []
    for row, recording in enumerate(recordings):
        clip = np.asarray(recording)
        if clip.dtype.kind in "iu":
            clip = clip / float(np.iinfo(clip.dtype).max)
        if clip.ndim == 2:
            clip = clip.mean(axis=1)
        if clip.ndim != 1 or not clip.size or clip.dtype.kind != "f":
            raise BadInput(
                f"{what} {row} has shape {np.shape(recording)}: samples (n,) or (n, channels) are accepted."
            )
        if not np.isfinite(clip).all():
            raise BadInput(f"{what} {row} holds a value that is no finite number.")
        clips.append(clip.astype(np.float64))
    return clips


@lru_cache(maxsize=8)
def _filters(size: int, rate: int) -> Floats:
    bins = np.arange(size // 2 + 1) * (rate / size)
    high = min(_HIGHEST, rate / 2.0)
    edges = hertz(np.linspace(float(mel(_LOWEST)), float(mel(high)), _BANDS + 2))
    low, peak, top = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0.0, np.minimum((bins - low) / (peak - low), (top - bins) / (top - peak)))


def speaker_recognition(
    original: Sequence[Any],
    released: Sequence[Any],
    labels: ArrayLike,
    *,
    rate: int,
    held_out: ArrayLike,
    kind: Literal["speaker", "word"] = "speaker",
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Return the accuracy of naming the speaker: before protection, by clean and by protected training.

    ``original`` and ``released`` are equally many clips, (n,) or (n, channels) each, of the speakers
    ``labels``. ``held_out`` marks those that are tested on; attackers learn from the others alone, and should
    not have the same take on both sides. Chance is the share of the most frequent speaker among those tested.
    With ``kind="word"`` labels are words, and a high value is good: it is what the release is still good for.
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    clean, protected = clips_of(original, "recording"), clips_of(released, "released recording")
    codes, test = _checked(kind, labels, held_out, len(clean), len(protected), rate)
    describe = voice_features if kind == "speaker" else word_features
    before, after = (np.stack([describe(clip, rate) for clip in clips]) for clips in (clean, protected))
    ways = (
        (f"{kind} recognition before protection", _BEFORE, before, before),
        (f"{kind} recognition, clean training", _CLEAN, before, after),
        (f"{kind} recognition, protected training", _SAME, after, after),
    )
    counts = np.bincount(codes[test])
    findings = []
    for name, threat, learnt, heard in ways:
        if (learnt[~test] == learnt[~test][0]).all():
            raise BadInput("every feature is constant over the recordings that the attack learns from.")
        model = make_pipeline(StandardScaler(), SVC(C=10.0, random_state=seed))
        guess = model.fit(learnt[~test], codes[~test]).predict(heard[test])
        findings.append(
            Finding.of_count(
                name,
                threat.format(kind=kind),
                "accuracy",
                int(np.count_nonzero(guess == codes[test])),
                int(test.sum()),
                confidence,
                chance=float(counts.max() / counts.sum()),
                numbers={f"{kind}s": float(codes.max() + 1), "recordings": float(test.sum())},
                note="" if kind == "speaker" else "utility: a high value is good",
            )
        )
    return tuple(findings)


def _checked(
    kind: str, labels: ArrayLike, held_out: ArrayLike, clean: int, protected: int, rate: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the number of each recording's label, and which are tested on."""
    whole("rate", rate, what="number of hertz", smallest=1000)
    if clean != protected:
        raise BadInput(f"there are {protected} released recordings of {clean} originals; give one each.")
    names, test = np.asarray(labels), np.asarray(held_out)
    for what, values in ((f"{kind}s", names), ("marks of what is held out", test)):
        if values.shape != (clean,):
            raise BadInput(f"the {what} have shape {values.shape}; one a recording is needed: ({clean},).")
    if test.dtype != np.bool_:
        raise BadInput("`held_out` must be True or False for each recording.", parameter="held_out")
    if test.all() or not test.any():
        raise BadInput("some recordings must be held out, and some not; the attacks learn from the latter.")
    classes, codes = np.unique(names, return_inverse=True)
    if classes.size < 2:
        raise BadInput(f"all recordings have one {kind}: there is nothing to recognise.")
    unknown = np.setdiff1d(codes[test], codes[~test])
    if unknown.size:
        row = int(np.flatnonzero(test & (codes == unknown[0]))[0])
        raise BadInput(f"the {kind} of recording {row} is held out only, so no attacker can know it.")
    return codes, test
