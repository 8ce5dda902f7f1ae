"""Cryptographic randomness and noise whose rounded distribution is exact."""

from sfumato.noise.discrete import discrete_gaussian, discrete_laplace
from sfumato.noise.grid import grid_step, onto_grid
from sfumato.noise.keyed import Keyed, Units, secret_to_send, secrets_travel
from sfumato.noise.laws import LAPLACE, NORMAL
from sfumato.noise.parallel import each_block, processors
from sfumato.noise.randomness import Randomness, Secure, Seeded, Stream
from sfumato.noise.rounded import Rounded
from sfumato.noise.samplers import gaussian_noise, laplace_noise
from sfumato.noise.uniform import below, coins, permutation

__all__ = [
    "LAPLACE",
    "NORMAL",
    "Keyed",
    "Randomness",
    "Rounded",
    "Secure",
    "Seeded",
    "Stream",
    "Units",
    "below",
    "coins",
    "discrete_gaussian",
    "discrete_laplace",
    "each_block",
    "gaussian_noise",
    "grid_step",
    "laplace_noise",
    "onto_grid",
    "permutation",
    "processors",
    "secret_to_send",
    "secrets_travel",
]
