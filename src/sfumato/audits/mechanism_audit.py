"""Audits of a mechanism on its worst pair of neighbours, drawn anew from a statement's parameters.

Attacks on real rows say how much *this* release gave away; real rows are rarely the worst ones. Here the
mechanism that a statement names is made again from its public parameters and releases the two neighbouring
records that are hardest to keep apart, many times. Neither the original data nor the release is needed, so
what is found may travel with the release.

**Validity.** Every game is one release of a record or of its neighbour with fresh noise; the bounds are those
of :mod:`~sfumato.audits.lower_bounds`, without assumptions and, if the proven column says Gaussian noise
alone, also under the assumption of a Gaussian pair, which they state. Any pair of neighbours and any score
gives a valid bound. The confidence is divided among the bounds.

**Tensors.** Where one component is the unit of the headline, whole tensors that differ in every component are
played too. Their components are noised independently, so that
:func:`~sfumato.audits.lower_bounds.component_bound` bounds ε as well.

**Edge cases.** Where the promise does not depend on the number of columns, or on the size of a picture beyond
its unit, the game is played on the smallest input that holds one unit. A mechanism whose parameters are not
all in the statement, or whose records have no bound, is refused in a sentence.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent
from numpy.typing import NDArray

from sfumato import mechanisms
from sfumato.audits.distinguishing_game import classifier_scores, likelihood_scores, play, worst_pair
from sfumato.audits.findings import Finding, stated_bound
from sfumato.audits.lower_bounds import (
    Bound,
    component_bound,
    gaussian_bound,
    threshold_bound,
    usual_delta,
)
from sfumato.errors import BadInput
from sfumato.mechanisms import (
    AdditiveNoise,
    Duchi,
    Gaussian,
    GridTensorLDP,
    Hybrid,
    Laplace,
    Mechanism,
    Personalised,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    RandomisedResponse,
    Rows,
    TensorLDP,
    TrustAdaptive,
    transforms,
    two_bounds,
)
from sfumato.mechanisms.transforms import BinaryEncoding, RandomProjection
from sfumato.media import audio, images, video
from sfumato.media.audio import SoundMechanism, window_samples
from sfumato.media.images import ContentAdaptive, PictureMechanism, footprint, picture_shape
from sfumato.noise import Randomness, Seeded
from sfumato.privacy import Guarantee, Statement, Unit

Array = NDArray[np.float64]
Scores = tuple[Array, Array]
Drawn = Mechanism | Rows

_GAMES = 100_000
# Most values that the releases of one game hold together.
_VALUES = 1 << 24
# Sounds, and pictures that detectors look at, pass through one by one, so that fewer games are played.
_ALONE = 1000
# The side of a picture where the whole item is the unit.
_ITEM = 16
_KINDS: Mapping[str, type[Mechanism]] = {
    name: kind
    for room in (mechanisms, transforms, images, audio, video)
    for name, kind in ((name, getattr(room, name)) for name in room.__all__)
    if inspect.isclass(kind) and issubclass(kind, Mechanism) and not inspect.isabstract(kind)
}
_NUMERIC, _CODED = " on numeric columns", "RandomisedResponse on coded columns"
_THREAT = "knows both records, the mechanism and its parameters; no record of the data is used"


def audit_mechanism(
    source: Statement | Mechanism,
    *,
    columns: int | None = None,
    games: int = _GAMES,
    delta: float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
) -> list[Finding]:
    """Play ``games`` games with the mechanism of ``source`` on its worst pair, and bound ε from below.

    ``source`` is a statement, whose mechanism is made again, or a mechanism. ``columns`` is the number of
    columns of the release, where the promise depends on it. ``delta`` is by default that of the proven
    column, at most 1e-5. The noise and the splits of the games follow from ``seed``, so that whoever reads
    what was found can repeat it; the samplers are those of a release.
    """
    noise = Seeded(seed)
    if isinstance(source, Statement):
        made: Drawn = mechanism_of(source, noise)
    elif isinstance(source, Mechanism):
        given = source.get_params(deep=False)
        made = type(source)(**(given | {"randomness": noise})) if "randomness" in given else source
    else:
        raise BadInput(f"a mechanism or a statement is audited, not {type(source)}.")
    plays = _games(made, columns)
    proven = plays[0].proven
    delta = usual_delta(proven) if delta is None else delta
    alone = proven.revealed == proven.slack == 0.0
    gaussian = isinstance(proven.event, GaussianDpEvent) and alone and delta > 0.0
    count = len(plays) + sum(game.components for game in plays) + gaussian
    common: dict[str, Any] = {"delta": delta, "confidence": 1.0 - (1.0 - confidence) / count}
    found = []
    for game in plays:
        first, second = game.scores(min(games, game.most) // 2)
        totals = (_total(first), _total(second))
        name = "worst-case game" if game is plays[0] else f"worst-case game, whole {game.proven.unit}"
        bounds = {name: threshold_bound(*totals, held_out=0.3, seed=seed, **common)}
        if gaussian and game is plays[0]:
            name = "worst-case game, read as Gaussian"
            bounds[name] = gaussian_bound(*totals, held_out=0.05, seed=seed, **common)
        if game.components:
            bounds["worst-case game, components counted"] = component_bound(first, second, **common)
        found += [_finding(name, bound, game) for name, bound in bounds.items()]
    return found


def mechanism_of(statement: Statement, randomness: Randomness | None = None) -> Drawn:
    """Return the mechanism that ``statement`` names, from its parameters, with noise of ``randomness``."""
    name, given = statement.mechanism, statement.parameters
    if name.endswith((_NUMERIC, _CODED)):
        return _rows_of(name, given, randomness)
    return _made(name, given, randomness)


def _made(name: str, given: Mapping[str, Any], randomness: Randomness | None) -> Mechanism:
    kind = _KINDS.get(name)
    if kind is None:
        raise BadInput(f"{name} cannot be drawn anew from its parameters: it is no mechanism for one record.")
    version = given.get("mechanism_version", kind.version)
    if version != kind.version:
        raise BadInput(
            f"the release was made by version {version} of {name}, and version {kind.version} is here: it "
            "cannot be drawn anew."
        )
    parameters: dict[str, Any] = {}
    drawn: dict[str, Any] = {}
    for parameter, declared in inspect.signature(kind).parameters.items():
        if parameter == "randomness":
            drawn["randomness"] = randomness
            continue
        if parameter not in given and parameter != "shape":
            raise BadInput(f"{name} cannot be drawn anew: its {parameter} is not in the statement.")
        value: Any = given.get(parameter)
        if isinstance(value, Mapping) and "mechanism" in value:
            value = _made(value["mechanism"], value, randomness)
        elif isinstance(value, str) and declared.default is None:
            value = None  # a function or a map by its name, which is right where that of None is the same
        elif parameter == "epsilon" and kind is Personalised and not isinstance(value, int | float):
            # The promise to everybody is that of the record with the largest ε.
            value = value["largest"] if isinstance(value, Mapping) else max(value)
        parameters[parameter] = value
    for parameter, value in parameters.items():
        described = parameter != "shape" and value != given[parameter] and value is None
        if described and kind(**parameters).parameters()[parameter] == given[parameter]:
            continue
        if described or "sha256" in json.dumps(value, default=str):
            raise BadInput(
                f"{name} cannot be drawn anew: the statement names its {parameter} and does not spell it out."
            )
    return kind(**parameters, **drawn)


def _rows_of(name: str, given: Mapping[str, Any], randomness: Randomness | None) -> Rows:
    """Return the mechanism of a table's rows; a release scales each numeric column to [−1, 1]."""
    weights, categories = given.get("weights"), given.get("categories")
    if weights is None or categories is None:
        raise BadInput("the table's weights and numbers of categories are not in the statement.")
    kind = name.partition(_NUMERIC)[0] if _NUMERIC in name else "Laplace"
    budget = {"epsilon": given["coded_epsilon"], "neighbours": "replace"}
    if _NUMERIC in name:
        budget = {key: value for key, value in given.items() if key not in ("weights", "categories")}
    budget |= {"clip": None, "bounds": None}
    count = len(weights) - len(categories)
    return Rows(_made(kind, budget, randomness), [(-1.0, 1.0)] * count, categories, weights)


@dataclass(frozen=True)
class _Game:
    """The worst pair in words, what is proven of it, and the scores of so many releases of either record.

    ``components`` says that each release has a score for each of its components, drawn independently.
    """

    pair: str
    proven: Guarantee
    scores: Callable[[int], Scores]
    most: int = 1 << 30
    components: bool = False


def _games(made: Drawn, columns: int | None) -> list[_Game]:
    """Return the game of the headline's unit, and that of whole tensors if their size is known."""
    if not isinstance(made, TensorLDP | GridTensorLDP):
        return [_game(made, columns)]
    whole = made.unit != "tensor" and (columns is not None or made.shape is not None)
    return [_tensor_game(made, columns, unit) for unit in (made.unit, *(["tensor"] if whole else []))]


def _game(made: Drawn, columns: int | None) -> _Game:
    if isinstance(made, Rows):
        return _rows_game(made)
    if isinstance(made, Personalised):
        made = Personalised(**(made.get_params(deep=False) | {"epsilon": float(made._budgets().max())}))
    if isinstance(made, Gaussian | Laplace | TrustAdaptive | RandomisedResponse):
        one, other = worst_pair(made)
        return _likelihood_game(made, one, other)
    if isinstance(made, RandomProjection):
        noise = made._noise()
        if isinstance(noise, Gaussian | Laplace | TrustAdaptive):
            one, other = worst_pair(noise, 1)
            return _learned_game(made, one, other, "the two ends of one direction")
    if isinstance(made, Duchi | Piecewise | Hybrid):
        low, high = two_bounds(made.bounds)
        count = made.coordinates or 1
        return _learned_game(made, np.full(count, low), np.full(count, high), "opposite corners of the box")
    if isinstance(made, PrivUnit | PrivUnitG):
        far = np.zeros(min(max(columns or 2, 2), 64))
        far[0] = float(made.clip)
        return _projected_game(made, -far, far, "opposite vectors of the largest length")
    if isinstance(made, BinaryEncoding):
        box = made._box(columns)
        one, other = (np.array(np.broadcast_to(end, columns or 1)) for end in (box.low, box.high))
        return _projected_game(made, one, other, "records that differ in every bit")
    if isinstance(made, PictureMechanism):
        return _picture_game(made)
    if isinstance(made, SoundMechanism):
        return _sound_game(made)
    if isinstance(made, AdditiveNoise | RandomProjection):
        raise BadInput(f"{type(made).__name__} has no worst pair: its records have no bound.")
    raise BadInput(f"the worst pair of {type(made).__name__} is not known here.")


def _likelihood_game(made: Mechanism, one: Array, other: Array) -> _Game:
    """The best score there is, since the densities are known."""

    def scores(games: int) -> Scores:
        first, second = play(made, one, other, games=games)
        return likelihood_scores(made, one, other, first), likelihood_scores(made, one, other, second)

    pair = "the two neighbours at the largest distance"
    return _Game(pair, made.guarantee(one.size), scores, _VALUES // one.size)


def _rows_game(made: Rows) -> _Game:
    """All numeric columns from one bound to the other, and another category in every coded column."""
    parts = [part for part in (made.numeric, made.coded) if part is not None]
    pairs = [worst_pair(part) for part in parts]

    def scores(games: int) -> Scores:
        total = [np.zeros(games), np.zeros(games)]
        for part, (one, other) in zip(parts, pairs, strict=True):
            for world, released in enumerate(play(part, one, other, games=games)):
                total[world] += likelihood_scores(part, one, other, released)
        return total[0], total[1]

    width = sum(one.size for one, _ in pairs)
    return _Game("rows that differ in every column", made.guarantee(), scores, _VALUES // width)


def _tensor_game(made: TensorLDP | GridTensorLDP, columns: int | None, unit: str) -> _Game:
    """One component, or all of them, at the lower bound against the upper one."""
    low, high = two_bounds(made.bounds)
    whole = unit == "tensor"
    size = made._size(columns, needed=whole)
    changed = size if whole else 1
    one, other = np.full(size, low), np.full(size, low)
    other[:changed] = high
    score = _grid_score(made, size) if isinstance(made, GridTensorLDP) else _kept_score(made, size)

    def scores(games: int) -> Scores:
        first, second = play(made, one, other, games=games)
        return score(first[:, :changed]), score(second[:, :changed])

    pair = f"tensors that differ in {'every component' if changed == size else 'one component'}"
    return _Game(pair, made._proven(unit, size), scores, _VALUES // size, components=whole)


def _total(scores: Array) -> Array:
    """The score of each release: that of all of its components, of which a certain one decides."""
    if scores.ndim == 1:
        return scores
    with np.errstate(invalid="ignore"):
        total = scores.sum(axis=1)
    return np.where(np.isnan(total), np.inf, total)  # certain of both, which is certain of neither


def _grid_score(made: GridTensorLDP, size: int) -> Callable[[Array], Array]:
    """The log ratio of the channel in each component, from the lowest level to the highest one."""
    low, high = two_bounds(made.bounds)
    with np.errstate(divide="ignore"):
        logs = np.log(made.channel(size).matrix)
    gain, last = logs[-1] - logs[0], len(logs) - 1

    def score(released: Array) -> Array:
        return np.asarray(gain[np.rint((released - low) / (high - low) * last).astype(np.intp)])

    return score


def _kept_score(made: TensorLDP, size: int) -> Callable[[Array], Array]:
    """The log-likelihood ratio of the noise in each component, ±inf where it is seen as it was."""
    low, high = two_bounds(made.bounds)
    scale = made._scale(size)

    def score(released: Array) -> Array:
        if made.noise == "laplace":
            each = (np.abs(released - low) - np.abs(released - high)) / scale
        else:
            each = (released - (low + high) / 2.0) * (high - low) / scale**2
        each[released == low] = -np.inf
        each[released == high] = np.inf
        return np.asarray(each)

    return score


def _projected_game(made: Mechanism, one: Array, other: Array, pair: str) -> _Game:
    """Scored along the line from one record to the other, or for bits by their number."""

    def scores(games: int) -> Scores:
        first, second = play(made, one, other, games=games)
        way = other - one if first.shape[1] == one.size else np.ones(first.shape[1])
        return first @ way, second @ way

    return _Game(pair, made.guarantee(one.size), scores, _VALUES // one.size // 8)


def _learned_game(made: Mechanism, one: Array, other: Array, pair: str) -> _Game:
    """Scored by a classifier that learned from other games."""

    def scores(games: int) -> Scores:
        return classifier_scores(*play(made, one, other, games=2 * games))

    return _Game(pair, made.guarantee(one.size), scores, _VALUES // one.size // 4)


def _picture_game(made: PictureMechanism) -> _Game:
    """A picture of one unit, black against white, scored by its brightness there."""
    unit = Unit.parse(made.unit)
    channels = 1 if made.shape is None else picture_shape(made.shape)[2]
    size = int(_ITEM if unit.size is None else unit.size)
    apart = footprint(unit, (size, size)).anywhere
    side = math.isqrt(apart - 1) + 1 if apart else size
    # No larger than the pictures that were released, whose size what is proven may depend on.
    height, width = (side, side) if made.shape is None else np.minimum(side, picture_shape(made.shape)[:2])
    shaped = made.shaped((int(height), int(width), channels))
    covered = footprint(unit, (int(height), int(width)))
    one = np.zeros((int(height), int(width), channels), dtype=np.uint8)
    other = one.copy()
    if covered.anywhere:
        other.reshape(-1, channels)[: covered.anywhere] = 255
    else:
        other[: covered.rows, : covered.columns] = 255
    changed = (other != one).ravel()

    def scores(games: int) -> Scores:
        worlds = []
        for number, picture in enumerate((one, other)):
            rows = np.repeat(picture.reshape(1, -1), games, axis=0)
            worlds.append(shaped.perturb(rows, number * games)[:, changed].mean(axis=1))
        return worlds[0], worlds[1]

    pair = f"black and white in {unit} of pictures of {width} × {height} pixels"
    most = _ALONE if isinstance(made, ContentAdaptive) else _VALUES // one.size
    return _Game(pair, shaped.guarantee(), scores, most)


def _sound_game(made: SoundMechanism) -> _Game:
    """A clip of one unit, silence against the loudest tone, scored by the tone or by its loudness."""
    if made.rate is None:
        raise BadInput(f"{type(made).__name__} cannot be drawn anew: its rate is not in the statement.")
    samples = window_samples(Unit.parse(made.unit), int(made.rate), int(made.rate) // 10)
    shaped = made.shaped((samples,))
    tone = float(getattr(made, "clip", 1.0)) * np.sin(0.6 * np.arange(samples))

    def scores(games: int) -> Scores:
        worlds = []
        for number, clip in enumerate((0.0 * tone, tone)):
            released = shaped.perturb(np.tile(clip, (games, 1)), number * games)
            kept = getattr(made, "keep", "") == "coefficients"
            worlds.append(released @ tone if kept else np.square(released).mean(axis=1))
        return worlds[0], worlds[1]

    pair = f"silence and a loud tone in clips of {samples} samples"
    return _Game(pair, shaped.guarantee(), scores, _ALONE)


def _finding(attack: str, bound: Bound, game: _Game) -> Finding:
    stated = stated_bound(bound, game.proven.unit, game.proven.neighbours)
    numbers = stated["numbers"]
    games = int(numbers["record_games"] + numbers["neighbour_games"])
    right = games - int(numbers["false_positives"] + numbers["false_negatives"])
    return Finding.of_count(
        *(attack, _THREAT, "share of guesses right", right, games, bound.confidence),
        chance=0.5,
        note="; ".join(part for part in (f"drawn anew on {game.pair}", bound.assumption) if part),
        mechanism_only=True,
        **stated,
    )
