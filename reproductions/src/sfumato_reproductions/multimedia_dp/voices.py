"""Speech: who speaks and what is said, before and after the paper's noise and ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.audits import speaker_recognition
from sfumato.media.audio import BandNoise, MelLaplace, SoundMechanism
from sfumato.noise import Seeded
from sfumato.privacy import Unit
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part, proven_epsilon
from sfumato_reproductions.multimedia_dp.sources import Sources, Speech
from sfumato_reproductions.regenerate import Report

__all__ = ["voices_part"]

_WINDOW, _CLIP = Unit("window", 20), Unit("clip")


def voices_part(sources: Sources, report: Report) -> Part | str:
    """Recognition of speakers and digits; the reason where no speech is at hand."""
    speech = sources.speech
    if speech is None:
        return "since no recordings were at hand"
    made = _releases(speech.rate)
    rows: list[dict[str, Any]] = []
    for name, (claimed, noise) in made.items():
        released = []
        for row, clip in enumerate(speech.recordings):
            released.append(noise.shaped(clip.shape).perturb(clip[None], row)[0])
            if row % 20 == 0:
                share = (len(rows) + row / len(speech.recordings)) / len(made)
                report("speech", share)
        rows.append(_row(name, claimed, noise, speech, released))
    report("speech", 1.0)
    return Part(
        key="speech",
        title="Speech: speakers against digits",
        told=_TOLD,
        grids=(_grid(rows, speech),),
        numbers={"recordings": len(speech.recordings), "tested": int(speech.held_out.sum()), "rows": rows},
    )


_TOLD = (
    "*Claimed*: noise on mel features is ε-DP and raises the word error rate by 7.2% (section 4.3.1). "
    "*Proven* is for any 20 ms and for the longest recording as a whole. *Measured* is the accuracy of a "
    "support vector machine on mel cepstra that names the speaker (an attack: low is good) or the digit "
    "(utility: high is good) of recordings it has not heard; it learns from clean recordings, or from "
    "protected ones."
)


def _releases(rate: int) -> dict[str, tuple[float | None, SoundMechanism]]:
    def mel(decay: float | None) -> SoundMechanism:
        return MelLaplace(1.0, _WINDOW, rate=rate, decay=decay, randomness=Seeded(1))

    return {
        "mel levels, fading noise: the paper's": (1.0, mel(50.0)),
        "mel levels, noise that does not fade": (1.0, mel(None)),
        **{
            f"BandNoise, ε = {epsilon:g}": (
                None,
                BandNoise(epsilon, unit=_WINDOW, rate=rate, randomness=Seeded(1)),
            )
            for epsilon in (4.0, 1.0)
        },
    }


def _row(
    name: str, claimed: float | None, noise: SoundMechanism, speech: Speech, released: list[Any]
) -> dict[str, Any]:
    longest = (max(clip.size for clip in speech.recordings), 1)
    options: dict[str, Any] = {"rate": speech.rate, "held_out": speech.held_out}
    who = speaker_recognition(speech.recordings, released, speech.speakers, **options)
    what = speaker_recognition(speech.recordings, released, speech.digits, kind="word", **options)
    return {
        "release": name,
        "claimed_epsilon": claimed,
        "proven_epsilon": {str(unit): noise.proven(unit, longest).epsilon() for unit in (_WINDOW, _CLIP)},
        "speaker": [finding.value for finding in who],
        "speaker_chance": who[0].chance,
        "digit": [finding.value for finding in what],
        "digit_chance": what[0].chance,
    }


def _grid(rows: list[dict[str, Any]], speech: Speech) -> Grid:
    def percent(values: list[float]) -> list[str]:
        return [f"{100.0 * value:.0f}%" for value in values]

    first = rows[0]
    before = ("not protected", NONE, "nothing", "nothing", *percent([first["speaker"][0]] * 2))
    body = [(*before, *percent([first["digit"][0]] * 2))]
    for row in rows:
        body.append(
            (
                row["release"],
                NONE if row["claimed_epsilon"] is None else f"{row['claimed_epsilon']:g}",
                *(proven_epsilon(value) for value in row["proven_epsilon"].values()),
                *percent(row["speaker"][1:]),
                *percent(row["digit"][1:]),
            )
        )
    chance = f"chance {100 * first['speaker_chance']:.0f}%", f"chance {100 * first['digit_chance']:.0f}%"
    heads = (
        "release",
        "claimed ε",
        f"proven ε, {_WINDOW}",
        f"proven ε, {_CLIP}",
        f"speaker, clean training ({chance[0]})",
        "speaker, protected training",
        f"digit, clean training ({chance[1]})",
        "digit, protected training",
    )
    tested, heard = int(speech.held_out.sum()), int(np.count_nonzero(~speech.held_out))
    return Grid(f"Accuracy on {tested} recordings, {heard} learned from", heads, tuple(body))
