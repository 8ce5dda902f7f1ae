"""Who speaks and what is said: recognised in voices made up here, and in real ones where they are at hand."""

import math

import numpy as np
import pytest

from real_data import real
from sfumato.audits.speakers import (
    cepstra,
    clips_of,
    speaker_recognition,
    voice_features,
    word_features,
)
from sfumato.errors import BadInput
from sfumato.media.audio import BandNoise
from sfumato.noise import Seeded

RATE = 8000
# Formants in hertz at the start and at the end of each made-up word.
WORDS = [
    ((300, 2200), (300, 2200)),
    ((700, 1200), (300, 2200)),
    ((300, 800), (700, 1200)),
    ((500, 1500), (500, 1500)),
]
PITCHES = [110.0, 150.0, 210.0]
TAKES = 10


def utterance(pitch, word, rng):
    """A pulse train through two gliding resonances, a little different every time."""
    samples = int(RATE * rng.uniform(0.25, 0.35))
    time, way = np.arange(samples) / RATE, np.linspace(0.0, 1.0, samples)
    tract = (pitch / 150.0) ** 0.35  # a higher voice has a shorter tract
    sound = np.zeros(samples)
    for harmonic in range(1, 30):
        frequency = harmonic * pitch * rng.uniform(0.97, 1.03)
        if frequency > 3800.0:
            break
        gain = sum(
            1.0 / (1.0 + ((frequency - tract * ((1 - way) * a + way * b)) / 90.0) ** 2)
            for a, b in zip(*word, strict=True)
        )
        sound += gain * np.sin(2 * math.pi * frequency * time + rng.uniform(0, 7))
    return 0.1 * sound * np.sin(math.pi * way) + 1e-3 * rng.normal(size=samples)


@pytest.fixture(scope="module")
def voices():
    rng = np.random.default_rng(0)
    rows = [(s, w, t) for s in range(len(PITCHES)) for w in range(len(WORDS)) for t in range(TAKES)]
    clips = [utterance(PITCHES[s], WORDS[w], rng) for s, w, _ in rows]
    speakers, words, takes = (np.array(column) for column in zip(*rows, strict=True))
    return clips, speakers, words, takes < 4


def released(mechanism, clips):
    """Each clip released as one of many, so that seeded noise differs from clip to clip."""
    return [mechanism.shaped(clip.shape).perturb(clip[None], row)[0] for row, clip in enumerate(clips)]


def test_clean_voices_and_words_are_recognised(voices):
    clips, speakers, words, held = voices
    for found in (
        speaker_recognition(clips, clips, speakers, rate=RATE, held_out=held),
        speaker_recognition(clips, clips, words, kind="word", rate=RATE, held_out=held),
    ):
        assert [finding.value > 0.9 for finding in found] == [True] * 3
        assert all(finding.beats_chance for finding in found)
        # Nothing was protected, so all three attackers are one.
        assert len({finding.value for finding in found}) == 1
    assert found[0].chance == 0.25
    assert found[0].numbers == {"words": 4.0, "recordings": 48.0}


def test_noise_alone_is_recognised_by_nobody(voices):
    """Intervals hold chance but for 1e-6 each: what is released has no part in the recordings."""
    clips, speakers, words, held = voices
    rng = np.random.default_rng(1)
    noise = [rng.normal(size=2400) for _ in clips]
    for kind, labels in (("speaker", speakers), ("word", words)):
        options = {"rate": RATE, "held_out": held, "kind": kind, "confidence": 1 - 1e-6}
        before, *after = speaker_recognition(clips, noise, labels, **options)
        assert before.beats_chance
        assert all(finding.interval[0] <= finding.chance for finding in after)


def test_protected_voices_are_harder_to_recognise(voices):
    """The noise is seeded: no false alarms."""
    clips, speakers, _, held = voices
    protected = released(BandNoise(2.0, rate=RATE, randomness=Seeded(0)), clips)
    before, clean, same = speaker_recognition(
        clips,
        protected,
        speakers,
        rate=RATE,
        held_out=held,
    )
    assert before.value > max(clean.value, same.value)
    assert "clean recordings" in clean.threat
    assert "protected recordings whose speaker is known" in same.threat
    assert all(
        finding.interval[0] <= finding.value <= finding.interval[1] for finding in (before, clean, same)
    )


def test_the_result_is_reproducible_and_inputs_stay_as_they_are(voices):
    clips, speakers, _, held = voices
    kept = [clip.copy() for clip in clips]
    found = [speaker_recognition(clips, clips, speakers, rate=RATE, held_out=held, seed=3) for _ in range(2)]
    assert found[0] == found[1]
    assert all(np.array_equal(*pair) for pair in zip(kept, clips, strict=True))


def test_features_have_one_length_whatever_the_clip():
    rng = np.random.default_rng(0)
    for samples in (1, 200, 5000):
        clip = rng.normal(size=samples)
        assert cepstra(clip, RATE).shape[1] == 14
        assert voice_features(clip, RATE).shape == (42,)
        assert word_features(clip, RATE).shape == (169,)
        assert np.isfinite(word_features(0.0 * clip, RATE)).all()


def test_loudness_moves_the_first_cepstrum_alone():
    clip = np.random.default_rng(0).normal(size=8000)
    quiet, loud = cepstra(clip, RATE), cepstra(10.0 * clip, RATE)
    assert np.abs(loud - quiet)[:, 1:].max() < 1e-3
    assert loud[:, 0] - quiet[:, 0] == pytest.approx(np.log(100.0) * math.sqrt(24), rel=1e-3)


def test_stereo_and_whole_numbers_are_the_same_recording():
    clip = np.rint(np.random.default_rng(0).uniform(-1, 1, 100) * 32767).astype(np.int16)
    (one,) = clips_of([clip], "recording")
    (two,) = clips_of([np.stack([one, one], axis=1)], "recording")
    assert np.array_equal(one, two)
    assert np.abs(one).max() <= 1.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"released": []}, "0 released recordings of 120"),
        ({"labels": np.zeros(120)}, "nothing to recognise"),
        ({"labels": np.zeros(5)}, "one a recording"),
        ({"held_out": np.zeros(120, dtype=bool)}, "must be held out"),
        ({"held_out": np.ones(120, dtype=bool)}, "must be held out"),
        ({"held_out": np.arange(120)}, "True or False"),
        ({"held_out": np.arange(120) < 40}, "held out only"),
        ({"rate": 0}, "`rate` must be"),
        ({"original": [np.zeros((2, 2, 2))] * 120}, "recording 0 has shape"),
        ({"original": [np.array([])] * 120}, "recording 0 has shape"),
        ({"original": [np.array([np.nan])] * 120}, "no finite number"),
        ({"original": [np.zeros(3000)] * 120}, "constant"),
    ],
)
def test_what_cannot_be_recognised_is_refused(voices, change, says):
    clips, speakers, _, held = voices
    given = {
        "original": clips,
        "released": clips,
        "labels": speakers,
        "held_out": held,
        "rate": RATE,
    } | change
    with pytest.raises(BadInput, match=says):
        speaker_recognition(
            given["original"],
            given["released"],
            given["labels"],
            rate=given["rate"],
            held_out=given["held_out"],
        )


def test_real_digits_survive_as_shapes_and_drown_as_coefficients():
    """Spoken digits at pure ε = 4 for any 20 ms; intervals that miss the truth with 1e-6 do not meet.

    The public shapes come from takes 25 to 49; attackers learn from takes 5 to 9 and hear takes 0 to 4.
    """
    with np.load(real("fsdd.npz")) as archive:
        chosen = np.flatnonzero(archive["take"] < 10)
        audio, offsets = archive["audio"], archive["offsets"]
        clips = [audio[offsets[i] : offsets[i + 1]] for i in chosen]
        digits, speakers = archive["digit"][chosen], archive["speaker"][chosen]
        held = archive["take"][chosen] < 5
    found = {}
    for keep in ("shapes", "coefficients"):
        protected = released(BandNoise(4.0, rate=RATE, keep=keep), clips)
        given = {"rate": RATE, "held_out": held, "confidence": 1 - 1e-6}
        found[keep] = speaker_recognition(clips, protected, digits, kind="word", **given)
        if keep == "shapes":
            before, clean, _ = speaker_recognition(clips, protected, speakers, **given)
            assert before.value > 0.97
            # Somebody with clean recordings of all six no longer knows most of them.
            assert clean.interval[1] < before.interval[0]
    assert found["shapes"][2].interval[0] > found["coefficients"][2].interval[1]
    assert found["shapes"][2].interval[0] > 4 * found["shapes"][2].chance
