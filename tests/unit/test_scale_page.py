"""The page about scale: what it prints can be computed again from what it prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from scale_figures import Job, Model, Ran, Table, Video
from scale_page import page
from timing import Row

STARTS = {name: Ran(seconds, 0.0) for name, seconds in (("local", 2.04), ("one", 4.52), ("two", 5.91))}
STARTS |= {"own one": Ran(8.0, 0.0), "own two": Ran(9.0, 0.0)}


def job(name: str, count: int, **seconds: float) -> Job:
    runs = {run.replace("_", " "): Ran(value, 0.0) for run, value in seconds.items()}
    return Job(name, "640 × 480", count, runs, STARTS)


PHOTOGRAPHS = job("photographs", 2_000, local=20.33, one=24.61, two=18.42, own_one=28.0)
CROPS = job("crops", 6_000, one=64.7, two=39.4, own_one=68.0, own_two=43.0)
SMALL = job("small crops", 2_000, local=9.5, one=14.4, two=11.9)
CLIP = Video("walk.mp4", 11.1, 333, (640, 360), Ran(7.63, 0.0), Ran(1.52, 0.0))
TABLE = Table(20.0, Ran(900.0, 1.9e9), 2e9, Ran(1800.0, 0.0))


def made(*jobs: Job, tabled: Table = TABLE) -> str:
    return page(jobs, Model(CROPS), CLIP, tabled, [Row("what", "3 s", 1.7, 1.6)])


def test_the_model_stands_beside_what_was_measured_and_knows_that_two_workers_are_no_two() -> None:
    model = Model(CROPS)
    assert model.efficiency(1) == 1.0
    assert model.efficiency(2) == round(179.0 / (2.0 * 99.6), 2) == 0.9
    assert model.seconds(CROPS, "two") == pytest.approx(CROPS.seconds("two"), abs=0.2)
    said = 5.9 + 2_000 / (99.4 * 2 * 0.9)
    assert model.seconds(PHOTOGRAPHS, "two") == pytest.approx(said)
    text = made(PHOTOGRAPHS, CROPS, SMALL)
    assert f"| Ray, 2 workers | 18.4 | 5.9 | 109 | 159.8 | {said:.1f} |" in text
    assert f"5.9 + 2,000 / (99.4 · 2 · 0.90) = {said:.1f} s, and 18.4 s were measured" in text


def test_both_ratios_stand_there_for_running_clusters_and_for_those_of_a_run() -> None:
    text = made(PHOTOGRAPHS, CROPS, SMALL)
    assert "| 6,000 crops | speed of 2 workers over 1 | 1.64 | 1.80 |" in text
    assert "| 6,000 crops | the same, clusters of their own | 1.58 | " in text
    assert "| 2,000 photographs | time of 1 worker over local | 1.21 | " in text
    assert "| 2,000 photographs | the same, a cluster of its own | 1.38 | " in text


def test_divisions_are_exact_in_the_figures_that_are_printed() -> None:
    text = made(PHOTOGRAPHS, CROPS, SMALL)
    assert "That is 11.07 s of video in 6.1 s, 1.81 seconds of video in a second" in text
    for rate, cores in re.findall(r"30,000 / ([\d.]+) = ([\d,]+) cores", text):
        assert int(cores.replace(",", "")) == round(30_000 / float(rate))
    days = re.findall(r"10⁶ / \(([\d.]+) a second · 86,400 s\) = ([\d.]+) workers", text)
    assert len(days) == 2
    assert all(float(workers) == round(1e6 / (float(rate) * 86_400), 2) for rate, workers in days)


def test_sentences_are_whole_whatever_the_figures_are() -> None:
    assert "So one worker of this machine's is enough for either." in made(PHOTOGRAPHS, CROPS, SMALL)
    slow = job("photographs", 2_000, local=1e3, one=1e3, two=1e3, own_one=1e3)
    said = "So it takes 6 workers of this machine's for photographs, one worker for small crops."
    assert said in made(slow, CROPS, SMALL)
    assert "refused any memory beyond 2.0 GB" in made(PHOTOGRAPHS, CROPS, SMALL)
    failed = Table(20.0, Ran(900.0, 1.9e9), 2e9, None)
    assert "`--engine local` failed." in made(PHOTOGRAPHS, CROPS, SMALL, tabled=failed)
    assert "sampled twice a second" in made(PHOTOGRAPHS, CROPS, SMALL)
