"""Training by stages: what each may change, budgets, and the same weights whenever it was interrupted."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sfumato.publishers.riemannian.riemannian_training import Checkpoint, Trainer
from sfumato.publishers.riemannian.riemannian_vae import Architecture
from sfumato.publishers.riemannian.training_stages import (
    SHARES,
    BilevelStage,
    CurvatureStage,
    DeviationStage,
    MeanStage,
    Rates,
    Schedule,
    new_run,
)

RATES = Rates(batch=64, every=3, divergent=8, perturbed=8)


def pictures(count=200):
    return torch.as_tensor(load_digits().images[:count] / 16.0, dtype=torch.float32)


def fresh(seed=3, rates=RATES, decoder="dense", latent=3):
    return new_run(Architecture((8, 8), latent, 12, decoder, width=32), pictures(), seed=seed, rates=rates)


def weights(run):
    parts = {"model": run.model, "critic": run.critic, "estimator": run.estimator}
    return {f"{k}.{n}": v.clone() for k, part in parts.items() for n, v in part.state_dict().items()}


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.fixture(scope="module")
def trained():
    """One run with a step count for each stage, its weights after every stage, and what was reported."""
    run, reports, after = fresh(), [], {}

    def report(stage, share, facts):
        reports.append((stage, share, dict(facts)))
        after[stage] = weights(run)

    first = weights(run)
    Trainer(run, Schedule((40, 5, 2, 2))).train(report)
    return run, first, after, reports


def test_stages_change_what_they_should_and_nothing_else(trained):
    _, first, after, _ = trained
    mean = changed(first, after["mean"])
    assert {"model.mean_network.0.weight", "model.mean_head.weight", "critic.score.weight"} <= mean
    assert not {name for name in mean if "deviation" in name or "scale" in name or "estimator" in name}
    deviation = changed(after["mean"], after["deviation"])
    assert {"model.deviation.raw_weights", "model.deviation.centres", "model.prior"} <= deviation
    assert {"model.scale_head.weight", "critic.score.weight"} <= deviation
    assert not {name for name in deviation if "mean_" in name or "model.reader" in name}
    assert all(name.startswith("estimator") for name in changed(after["deviation"], after["curvature"]))
    bilevel = changed(after["curvature"], after["bilevel"])
    for name in ("model.mean_network.0.weight", "model.reader.0.weight", "model.deviation.raw_weights"):
        assert name in bilevel
    assert {"critic.score.weight", "estimator.layers.0.weight"} <= bilevel


def test_reports_rise_to_one_and_carry_finite_losses(trained):
    _, _, _, reports = trained
    shares = [share for _, share, _ in reports]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    stages = [stage for stage, _, _ in reports]
    assert list(dict.fromkeys(stages)) == ["mean", "deviation", "curvature", "bilevel"]
    assert all(np.isfinite(list(facts.values())).all() for _, _, facts in reports)
    assert {"unlikelihood", "divergence", "critic", "generator", "curvature"} == set(reports[-1][2])


def test_the_mean_stage_learns_to_reconstruct():
    run = fresh(rates=Rates(batch=64))
    stage = MeanStage(run)
    rows = torch.arange(64)
    losses = [stage.step(rows, number)["error"] for number in range(150)]
    assert np.mean(losses[-10:]) < 0.4 * losses[0]
    means = run.model.means(run.pictures)
    assert (means.std(dim=0) - 1.0).abs().max() < 0.4


def test_the_deviation_stage_raises_the_evidence_bound():
    run = fresh(rates=Rates(batch=64, divergent=32))
    for number in range(100):
        MeanStage(run).step(torch.arange(64), number)
    stage = DeviationStage(run)
    stage.begin()
    rows = torch.arange(200)
    bounds = [sum(stage.step(rows, number).values()) for number in range(0, 2 * 60, 2)]
    assert np.mean(bounds[-10:]) < np.mean(bounds[:10])


def test_the_estimator_stage_learns_curvature():
    run = fresh()
    DeviationStage(run).begin()
    stage = CurvatureStage(run)
    stage.begin()
    losses = [stage.step(torch.arange(64), number)["curvature"] for number in range(12)]
    assert losses[-1] < 0.5 * losses[0]
    points = stage.memory["points"][:64]
    assert (run.estimator(points).log() - stage.memory["targets"][:64]).abs().median() < 0.5
    assert len(stage.memory["points"]) == len(stage.memory["targets"]) == 512 + 12 * 64


@pytest.mark.parametrize("decoder", ["dense", "conv"])
def test_a_bilevel_step_has_all_four_losses(decoder):
    run = fresh(decoder=decoder)
    DeviationStage(run).begin()
    facts = BilevelStage(run).step(torch.arange(32), 0)
    assert set(facts) == {"unlikelihood", "divergence", "critic", "generator", "curvature"}
    assert np.isfinite(list(facts.values())).all()


class Killed(Exception):
    """Stands for a process that ends at once."""


@pytest.mark.parametrize("stop", ["mean", "deviation", "curvature", "bilevel"])
def test_a_killed_run_ends_in_the_weights_of_an_uninterrupted_one(tmp_path, trained, stop):
    identity = {"of": "this test"}
    file = Checkpoint(tmp_path / "run.pt", identity)
    written = []

    class Dying(Checkpoint):
        def write(self, content):
            super().write(content)
            written.append(content["stage"])
            if content["within"] and ("mean", "deviation", "curvature", "bilevel")[content["stage"]] == stop:
                raise Killed

    dying = Dying(file.path, identity)
    with pytest.raises(Killed):
        Trainer(fresh(), Schedule((40, 5, 2, 2)), checkpoint=dying, interval=0.0).train()
    assert written
    run = fresh(seed=99)  # whatever it starts from, the checkpoint decides
    Trainer(run, Schedule((40, 5, 2, 2)), checkpoint=file).train()
    end = weights(trained[0])
    assert changed(end, weights(run)) == set()
    again = fresh(seed=100)
    Trainer(again, Schedule((40, 5, 2, 2)), checkpoint=file).train()
    assert changed(end, weights(again)) == set()


SCRIPT = """
import sys
from sklearn.datasets import load_digits
from sfumato.noise import Seeded
from sfumato.publishers.curvature_publisher import CurvaturePublisher
data = load_digits()
def report(stage, share, facts):
    print(stage, share, flush=True)
CurvaturePublisher(latent=3, centres=12, time_budget=600.0, top=16.0, checkpoint=sys.argv[1],
                   randomness=Seeded(1)).fit(data.images, data.target, report=report)
"""


def test_a_process_killed_by_a_signal_leaves_a_checkpoint_that_can_be_read(tmp_path):
    path = tmp_path / "run.pt"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("mean")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert Checkpoint(path, {"latent": 3}).read()["stage"] == 0
    assert os.listdir(tmp_path) == ["run.pt"]


def test_a_time_budget_is_kept_and_shared():
    seconds, spent = 4.0, {}
    start = time.monotonic()

    def report(stage, share, facts):
        spent[stage] = time.monotonic() - start

    Trainer(fresh(), Schedule((), seconds)).train(report)
    assert spent["mean"] <= seconds * SHARES[0] + 1.0
    assert spent["bilevel"] <= seconds + 2.0
    assert list(spent) == ["mean", "deviation", "curvature", "bilevel"]


def test_deadlines_add_up_and_steps_end_stages():
    schedule = Schedule((), 100.0)
    assert [schedule.deadline(stage) for stage in range(4)] == pytest.approx([55.0, 70.0, 80.0, 100.0])
    assert not schedule.ended(0, 0, 1e9, 0.0)
    assert schedule.ended(0, 1, 55.1, 0.0)
    assert schedule.ended(0, 9, 54.0, 3.0)
    assert not schedule.ended(0, 9, 54.0, 1.0)
    assert Schedule.epochs((2, 1, 1, 3), 100, 64).steps == (2, 1, 1, 3)
    assert Schedule.epochs((2, 1, 1, 3), 200, 64).steps == (6, 3, 3, 9)
    assert Schedule.epochs((2, 1, 1, 3), 10, 64).steps == (2, 1, 1, 3)
