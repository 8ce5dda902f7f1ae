"""Phase 3 of Algorithm 1 (Yin et al., 2025): the four alternating steps of equations 16 and 17."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.publishers.riemannian.critic import critic_loss, generator_loss
from sfumato.publishers.riemannian.curvature_stage import curvature_error, log_curvature, on_the_way
from sfumato.publishers.riemannian.obfuscator import Obfuscator
from sfumato.publishers.riemannian.pretraining import negative_elbo
from sfumato.publishers.riemannian.stage import Run, Stage

__all__ = ["BilevelStage"]

# The estimator follows a decoder that hardly moves: slower than it learned at first, faster than that.
SLOWER = 0.1


class BilevelStage(Stage):
    """Upper level: pictures of perturbed points please the critic. Lower level: K̂ stays what K is.

    Each step takes (1) a step of the whole autoencoder down its evidence bound, without perturbation, (2) one
    of the critic, private pictures against mean pictures at points moved by the obfuscator, (3) one of the
    decoder by the critic's judgement of these, and (4) one of the curvature estimator under the new decoder.
    The move itself is not differentiated: to the decoder, the moved points are given.
    """

    name = "bilevel"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        rate = run.rates.bilevel
        self.add("model", run.model.parameters(), rate)
        self.add("decoder", run.model.decoder_parameters(), rate)
        self.add("critic", run.critic.parameters(), rate)
        self.add("estimator", run.estimator.parameters(), SLOWER * run.rates.curvature)

    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """The losses of all four steps."""
        run = self.run
        x = run.pictures[rows]
        loss, facts = negative_elbo(run, x)
        self.descend("model", loss / run.model.architecture.numbers)

        few = x[: run.rates.perturbed]
        codes = run.model.means(few)
        moved = Obfuscator(run.model, run.estimator, strategy=run.strategy).perturb(codes)
        fake, real = run.model.mean_network(moved), torch.flatten(few, 1)
        facts["critic"] = self.descend("critic", critic_loss(run.critic, real, fake, run.generator))

        facts["generator"] = self.descend("decoder", generator_loss(run.critic, fake))

        points = on_the_way(run, codes)
        error = curvature_error(run, points, log_curvature(run, points))
        facts["curvature"] = self.descend("estimator", error)
        return facts
