"""Cryptographic randomness and noise whose rounded distribution is exact."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.noise.grid import LAPLACE as LAPLACE
    from sfumato.noise.grid import MAX_SCALE as MAX_SCALE
    from sfumato.noise.grid import NORMAL as NORMAL
    from sfumato.noise.grid import Law as Law
    from sfumato.noise.grid import Rounded as Rounded
    from sfumato.noise.grid import gaussian_noise as gaussian_noise
    from sfumato.noise.grid import grid_step as grid_step
    from sfumato.noise.grid import laplace_noise as laplace_noise
    from sfumato.noise.grid import mpmath_context as mpmath_context
    from sfumato.noise.grid import onto_grid as onto_grid
    from sfumato.noise.keyed import Keyed as Keyed
    from sfumato.noise.keyed import Units as Units
    from sfumato.noise.keyed import ask_for_keys as ask_for_keys
    from sfumato.noise.keyed import secret_to_send as secret_to_send
    from sfumato.noise.keyed import secrets_stay as secrets_stay
    from sfumato.noise.keyed import secrets_travel as secrets_travel
    from sfumato.noise.randomness import THREADS as THREADS
    from sfumato.noise.randomness import NoisedSums as NoisedSums
    from sfumato.noise.randomness import Randomness as Randomness
    from sfumato.noise.randomness import Secure as Secure
    from sfumato.noise.randomness import Seeded as Seeded
    from sfumato.noise.randomness import Stream as Stream
    from sfumato.noise.randomness import coins as coins
    from sfumato.noise.randomness import each_block as each_block
    from sfumato.noise.randomness import inner_threads as inner_threads
    from sfumato.noise.randomness import processors as processors
    from sfumato.noise.randomness import random_permutation as random_permutation
    from sfumato.noise.randomness import uniform_integers as uniform_integers

__all__ = [
    "LAPLACE",
    "MAX_SCALE",
    "NORMAL",
    "THREADS",
    "Keyed",
    "Law",
    "NoisedSums",
    "Randomness",
    "Rounded",
    "Secure",
    "Seeded",
    "Stream",
    "Units",
    "ask_for_keys",
    "coins",
    "each_block",
    "gaussian_noise",
    "grid_step",
    "inner_threads",
    "laplace_noise",
    "mpmath_context",
    "onto_grid",
    "processors",
    "random_permutation",
    "secret_to_send",
    "secrets_stay",
    "secrets_travel",
    "uniform_integers",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "LAPLACE": "grid",
            "MAX_SCALE": "grid",
            "NORMAL": "grid",
            "Law": "grid",
            "Rounded": "grid",
            "gaussian_noise": "grid",
            "grid_step": "grid",
            "laplace_noise": "grid",
            "mpmath_context": "grid",
            "onto_grid": "grid",
            "Keyed": "keyed",
            "Units": "keyed",
            "ask_for_keys": "keyed",
            "secret_to_send": "keyed",
            "secrets_stay": "keyed",
            "secrets_travel": "keyed",
            "THREADS": "randomness",
            "NoisedSums": "randomness",
            "Randomness": "randomness",
            "Secure": "randomness",
            "Seeded": "randomness",
            "Stream": "randomness",
            "coins": "randomness",
            "each_block": "randomness",
            "inner_threads": "randomness",
            "processors": "randomness",
            "random_permutation": "randomness",
            "uniform_integers": "randomness",
        },
    )
