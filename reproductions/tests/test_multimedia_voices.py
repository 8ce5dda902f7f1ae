"""Speech in the multimedia tables, on voices that are made up here."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato_reproductions.multimedia_dp.part import Part
from sfumato_reproductions.multimedia_dp.protocol import Run
from sfumato_reproductions.multimedia_dp.sources import Sources
from sfumato_reproductions.multimedia_dp.voices import voices_part

RATE = 8000


@pytest.fixture
def sources(tmp_path, monkeypatch) -> Sources:
    """Two pitches, four chords, two takes each, as the data set of spoken digits stores them."""
    draw = np.random.default_rng(0)
    rows = [(take, digit, speaker) for take in range(2) for digit in range(4) for speaker in range(2)]
    clips = []
    for _, digit, speaker in rows:
        time = np.arange(1600) / RATE
        waves = [np.sin(2 * np.pi * (120 + 90 * speaker) * (1 + digit) * k * time) / k for k in range(1, 6)]
        clips.append(np.rint(6000 * sum(waves) + draw.normal(0, 60, time.size)).astype(np.int16))
    take, digit, speaker = (np.array(column) for column in zip(*rows, strict=True))
    np.savez(
        tmp_path / "fsdd.npz",
        audio=np.concatenate(clips),
        offsets=1600 * np.arange(len(rows) + 1),
        take=take,
        digit=digit,
        speaker=speaker,
        sample_rate=RATE,
    )
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    return Sources(Run.of(True))


def test_recognition_stands_beside_what_is_proven(sources) -> None:
    heard: list[float] = []
    part = voices_part(sources, lambda stage, share: heard.append(share))
    assert isinstance(part, Part)
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    rows = {row["release"]: row for row in part.numbers["rows"]}
    assert (part.numbers["recordings"], part.numbers["tested"]) == (16, 8)
    for epsilon in (1.0, 4.0):
        row = rows[f"BandNoise, ε = {epsilon:g}"]
        assert row["claimed_epsilon"] is None
        assert row["proven_epsilon"]["window(20)"] <= epsilon
        assert row["proven_epsilon"]["clip"] > row["proven_epsilon"]["window(20)"]
    paper = rows["mel levels, fading noise: the paper's"]
    assert paper["claimed_epsilon"] == 1.0
    assert paper["proven_epsilon"]["window(20)"] > 1000.0
    for row in rows.values():
        assert (row["speaker_chance"], row["digit_chance"]) == (0.5, 0.25)
        assert all(0.0 <= value <= 1.0 for value in row["speaker"] + row["digit"])
    (grid,) = part.grids
    assert grid.rows[0][0] == "not protected"
    assert len(grid.rows) == 1 + len(rows)


def test_without_speech_there_is_no_part(monkeypatch) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    assert voices_part(Sources(Run.of(True)), lambda stage, share: None) == "since no recordings were at hand"
