"""Who is speaking, and what is said: recognition before and after a release of recordings.

A guarantee for a window of 20 ms is none for a voice, which is in every window. These attacks say what is
left of it. One attacker has clean recordings of every speaker, one has protected recordings whose speaker is
known; both name the speaker of protected recordings that neither has heard. The same recogniser on words says
what the release is still good for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.proportions import interval
from sfumato.audits.reidentification import Report
from sfumato.audits.voices import clips_of, voice_features, word_features
from sfumato.errors import BadInput

__all__ = ["speaker_recognition", "word_recognition"]

Floats = NDArray[np.float64]
Describe = Callable[[Floats, int], Floats]

_CLEAN = "has clean recordings of every {kind} and names the {kind} of protected ones"
_SAME = "has protected recordings whose {kind} is known and names the {kind} of others"
_BEFORE = "has clean recordings of every {kind} and names the {kind} of other clean ones: before protection"


def speaker_recognition(
    original: Sequence[Any],
    released: Sequence[Any],
    speakers: ArrayLike,
    *,
    rate: int,
    held_out: ArrayLike,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> tuple[Finding, ...]:
    """The accuracy of naming the speaker: before protection, by clean and by protected training.

    ``original`` and ``released`` are equally many clips, (n,) or (n, channels) each, of ``speakers``.
    ``held_out`` marks those that are tested on; attackers learn from the others alone, and should not have
    the same take on both sides. Chance is the share of the most frequent speaker among those tested.
    """
    return _recognition(
        "speaker", voice_features, original, released, speakers, rate, held_out, confidence, seed, report
    )


def word_recognition(
    original: Sequence[Any],
    released: Sequence[Any],
    words: ArrayLike,
    *,
    rate: int,
    held_out: ArrayLike,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> tuple[Finding, ...]:
    """The accuracy of naming the word, as utility: before protection, by clean and by protected training.

    Arguments are those of :func:`speaker_recognition`. Here a high value is good.
    """
    return _recognition(
        "word", word_features, original, released, words, rate, held_out, confidence, seed, report
    )


def _recognition(
    kind: str,
    describe: Describe,
    original: Sequence[Any],
    released: Sequence[Any],
    labels: ArrayLike,
    rate: int,
    held_out: ArrayLike,
    confidence: float,
    seed: int,
    report: Report | None,
) -> tuple[Finding, ...]:
    clean, protected = clips_of(original, "recording"), clips_of(released, "released recording")
    codes, test = _checked(kind, labels, held_out, len(clean), len(protected), rate)
    before = np.stack([describe(clip, rate) for clip in clean])
    after = np.stack([describe(clip, rate) for clip in protected])
    ways = (
        (f"{kind} recognition before protection", _BEFORE, before, before),
        (f"{kind} recognition, clean training", _CLEAN, before, after),
        (f"{kind} recognition, protected training", _SAME, after, after),
    )
    counts = np.bincount(codes[test])
    findings = []
    for index, (name, threat, learnt, heard) in enumerate(ways):
        guess = _learn(learnt[~test], codes[~test], seed)(heard[test])
        right, asked = int(np.count_nonzero(guess == codes[test])), int(test.sum())
        findings.append(
            Finding(
                attack=name,
                threat=threat.format(kind=kind),
                measure="accuracy",
                value=right / asked,
                chance=float(counts.max()) / asked,
                interval=interval(right, asked, confidence),
                confidence=confidence,
                numbers={f"{kind}s": float(codes.max() + 1), "recordings": float(asked)},
                note="" if kind == "speaker" else "utility: a high value is good",
            )
        )
        if report is not None:
            report(f"{kind} recognition", (index + 1) / len(ways))
    return tuple(findings)


def _learn(
    features: Floats, codes: NDArray[np.intp], seed: int
) -> Callable[[Floats], NDArray[np.integer[Any]]]:
    """A support vector machine with a Gaussian kernel on standardised features."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if (features == features[0]).all():
        raise BadInput("every feature is constant over the recordings that the attack learns from.")
    model = make_pipeline(StandardScaler(), SVC(C=10.0, random_state=seed)).fit(features, codes)
    return lambda rows: np.asarray(model.predict(rows))


def _checked(
    kind: str, labels: ArrayLike, held_out: ArrayLike, clean: int, protected: int, rate: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The number of each recording's label, and which are tested on."""
    if isinstance(rate, bool) or not isinstance(rate, int | np.integer) or rate < 1000:
        raise BadInput(
            f"`rate` was {rate!r}: a whole number of hertz, 1000 or more, is accepted.", parameter="rate"
        )
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
