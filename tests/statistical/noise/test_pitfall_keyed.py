"""Keyed noise: the same bytes for the same request, and never the same noise for two different ones."""

import numpy as np
import pytest
from frequencies import fits
from scipy.stats import laplace, norm

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    AdditiveNoise,
    Gaussian,
    Laplace,
    Personalised,
    RandomisedResponse,
    TrustAdaptive,
)
from sfumato.mechanisms.transforms import BinaryEncoding, RandomProjection
from sfumato.noise import LAPLACE, NORMAL, Keyed, Rounded, Seeded

SECRET = bytes(range(32))
NAMES = {"dataset": "clinic", "version": "2024-05", "release": "first"}
COLUMNS = 64
# Sixty-four Gaussian draws of some thousand steps each coincide with chance below 1e-200.
DATA = np.random.default_rng(1).standard_normal((500, COLUMNS)) / 16.0


def keyed(secret=SECRET, **changed):
    return Keyed(secret, **(NAMES | changed))


def noise_of(randomness, data=DATA, **parameters):
    parameters = {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0} | parameters
    return Gaussian(**parameters, randomness=randomness).release(data).value


def codes(rows, columns):
    """Whole numbers 0 … 3, which every mechanism accepts, in no simple pattern."""
    return (np.arange(rows * columns).reshape(rows, columns) * 7 % 11 % 4).astype(np.float64)


def test_the_same_request_returns_the_same_bytes():
    """No chance of a false alarm; from one source and from a second one that knows the same secret."""
    source = keyed()
    first = noise_of(source)
    assert first.tobytes() == noise_of(source).tobytes() == noise_of(keyed()).tobytes()


@pytest.mark.parametrize(
    "changed", [{"dataset": "ward"}, {"version": "2024-06"}, {"release": "second"}, {"secret": bytes(32)}]
)
def test_another_secret_or_name_gives_other_noise_everywhere(changed):
    """False-alarm rate below 1e-200: no row keeps its noise."""
    assert not (noise_of(keyed()) == noise_of(keyed(**changed))).all(axis=1).any()


@pytest.mark.parametrize(
    "changed", [{"epsilon": 1.0000001}, {"delta": 2e-6}, {"clip": 1.0000001}, {"neighbours": "zero-out"}]
)
def test_other_parameters_never_scale_the_same_draw(changed):
    """False-alarm rate 1e-6: noises under two parameters are uncorrelated, unlike one draw at two scales.

    32 000 products of independent normals average less than 0.03 (5.4 deviations) but for 1e-7.
    """
    one, two = (noise_of(keyed(), **extra) - DATA for extra in ({}, changed))
    assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.03


def test_equal_content_in_two_units_never_shares_noise():
    """False-alarm rate below 1e-200: (x, x) against (x, x′) must not be told apart by equal rows."""
    released = noise_of(keyed(), np.tile(DATA[:1], (200, 1)))
    assert np.unique(released, axis=0).shape[0] == 200


def test_a_unit_whose_content_changes_gets_other_noise_and_the_others_keep_theirs():
    """False-alarm rate below 1e-20; one value changes, under two sources that share no memory."""
    changed = DATA.copy()
    changed[7, 3] += 2.0**-8
    one, two = noise_of(keyed()), noise_of(keyed(), changed)
    others = np.arange(500) != 7
    assert one[others].tobytes() == two[others].tobytes()
    assert abs(np.corrcoef(one[7] - DATA[7], two[7] - changed[7])[0, 1]) < 0.9


def test_a_change_below_the_grid_buys_no_fresh_noise():
    """No chance involved: the key holds the gridded content, not the raw bytes."""
    assert noise_of(keyed()).tobytes() == noise_of(keyed(), DATA * (1.0 + 1e-15)).tobytes()


def test_other_content_under_a_used_release_id_is_refused():
    """No chance involved."""
    source = keyed()
    noise_of(source)
    with pytest.raises(BadInput, match="other content"):
        noise_of(source, -DATA)
    noise_of(keyed(release="second"), -DATA)


STREAMED = {
    "gaussian": lambda r: Gaussian(1.0, 1e-6, 1.0, randomness=r),
    "laplace": lambda r: Laplace(1.0, bounds=(0.0, 1.0), randomness=r),
    "trust": lambda r: TrustAdaptive(0.3, clip=1.0, randomness=r, epsilon=(1.0, 8.0)),
    "personalised": lambda r: Personalised(np.tile([1.0, 2.0, 8.0], 1000), clip=1.0, randomness=r),
    "response": lambda r: RandomisedResponse(5.0, 4, randomness=r),
    "binary": lambda r: BinaryEncoding(bits=3, randomness=r),
    "projection": lambda r: RandomProjection(211, Gaussian(1.0, 1e-6, 1.0, randomness=r)),
    "control": lambda r: AdditiveNoise(0.5, randomness=r),
}


@pytest.mark.parametrize("make", STREAMED.values(), ids=STREAMED)
@pytest.mark.parametrize("times", [1, 2])
def test_a_seeded_release_streamed_in_whole_blocks_has_the_bytes_of_one_call(make, times):
    """No chance involved: blocks of one and of two working blocks, the last one shorter."""
    mechanism, columns = make(Seeded(3)), 400
    height = times * mechanism.block_rows(columns)
    rows = 2 * height + 3
    data = codes(rows, columns)
    parts = [mechanism.perturb(data[at : at + height], at) for at in range(0, rows, height)]
    assert len(parts) > 1
    assert np.concatenate(parts).tobytes() == mechanism.perturb(data).tobytes()


@pytest.mark.parametrize("make", STREAMED.values(), ids=STREAMED)
def test_a_keyed_release_has_the_bytes_of_one_call_wherever_it_is_cut(make):
    """No chance involved: every unit has a stream of its own, under a source that remembers nothing else."""
    data = codes(30, 9)
    whole = make(keyed()).perturb(data)
    mechanism = make(keyed())
    parts = [mechanism.perturb(data[at:to], at) for at, to in ((0, 1), (1, 12), (12, 30))]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", ["gaussian", "response", "binary", "projection"])
def test_keyed_rows_of_equal_content_differ_for_every_kind_of_mechanism(name):
    """False-alarm rate below 1e-15: a hundred rows of at least 100 answers each, no two of them equal."""
    released = STREAMED[name](keyed()).perturb(np.ones((100, 100)))
    assert np.unique(released, axis=0).shape[0] == 100


def test_the_index_of_a_unit_is_part_of_its_key():
    """False-alarm rate below 1e-200: the same rows, released as other units, get other noise."""
    mechanism = Gaussian(1.0, 1e-6, 1.0, randomness=keyed())
    assert not (mechanism.perturb(DATA) == mechanism.perturb(DATA, first=1000)).all(axis=1).any()


def test_mechanisms_of_equal_parameters_have_streams_of_their_own():
    """False-alarm rate 1e-6: two kinds of Gaussian noise under one source are uncorrelated."""
    plain = noise_of(keyed()) - DATA
    trust = TrustAdaptive(0.0, (1.0, 1.0), 1e-6, 1.0, randomness=keyed()).release(DATA).value - DATA
    assert abs(np.corrcoef(plain.ravel(), trust.ravel())[0, 1]) < 0.03


def test_keyed_tiers_are_nested_and_repeat():
    """False-alarm rate 1e-6: the same ladder gives the same bytes; another ladder shares no draw with it.

    Within a ladder tier 0's noise is part of tier 1's. Another ladder has other scales, and one draw at two
    scales would give the record away, so its noise is uncorrelated (5.4 deviations of 32 000 products).
    """
    mechanism = TrustAdaptive(epsilon=(1.0, 8.0), delta=1e-6, clip=1.0, randomness=keyed())
    once, again = (mechanism.tiers([0.0, 0.5]).release(DATA) for _ in range(2))
    for level in (0.0, 0.5):
        assert once[level].value.tobytes() == again[level].value.tobytes()
    base, next_ = (once[level].value - DATA for level in (0.0, 0.5))
    shared = np.corrcoef(base.ravel(), next_.ravel())[0, 1]
    sigmas = [TrustAdaptive(level, (1.0, 8.0), 1e-6, 1.0).sigma(COLUMNS) for level in (0.0, 0.5)]
    assert abs(shared - sigmas[0] / sigmas[1]) < 0.03
    for other in ([0.0, 0.6], [0.0], [0.0, 0.5, 1.0]):
        noise = mechanism.tiers(other).release(DATA)[0.0].value - DATA
        assert abs(np.corrcoef(base.ravel(), noise.ravel())[0, 1]) < 0.03


ROWS, WIDTH = 200_000, 2
EQUAL = np.tile([5.0, -3.0], (ROWS, 1))


def of_equal_rows(law, scale):
    """Noise of ``scale`` grid steps on equal rows, which stand in four groups of units that share keys."""
    units = keyed().unit_streams({"mechanism": "Some"}, 30_000, EQUAL)
    return Rounded(law, [scale]).draw(units, EQUAL.size)[0]


def frequencies_fit(draws, law, scale):
    """Whether ``draws`` have the frequencies of rounded noise of ``scale`` steps."""
    edges = np.arange(-4.0 * scale, 4.0 * scale) + 0.5
    below = {"normal": norm.cdf, "laplace": laplace.cdf}[law.name](edges / scale)
    counts = np.bincount(np.searchsorted(edges, draws), minlength=edges.size + 1)
    return fits(counts, np.diff(below, prepend=0.0, append=1.0))


@pytest.mark.parametrize("law", [NORMAL, LAPLACE], ids=lambda law: law.name)
def test_keyed_noise_of_short_equal_rows_has_its_law_and_a_fifth_less_is_caught(law):
    """False-alarm rate 1e-6; 400,000 draws, two of each unit, of the scale and of a fifth less."""
    assert frequencies_fit(of_equal_rows(law, 5.0), law, 5.0)
    assert not frequencies_fit(of_equal_rows(law, 4.0), law, 5.0)


@pytest.mark.parametrize("apart", [1, 2, 3, 256, 4096, 65_536, 2 * 65_536])
def test_keyed_noise_of_short_equal_rows_is_independent_from_row_to_row(apart):
    """False-alarm rate 1e-6 each: 200,000 products and more of independent normals, 5.4 deviations.

    65,536 rows apart two units have the same row among those that share keys.
    """
    noise = of_equal_rows(NORMAL, 1000.0)
    one, two = noise[: -WIDTH * apart], noise[WIDTH * apart :]
    for first, second in ((one, two), (np.abs(one), np.abs(two))):
        assert abs(np.corrcoef(first, second)[0, 1]) * np.sqrt(first.size) < 5.4
    assert abs(np.corrcoef(noise.reshape(-1, WIDTH).T)[0, 1]) * np.sqrt(ROWS) < 5.4


def test_a_statement_of_keyed_noise_says_that_it_rests_on_the_secret():
    """No chance involved."""
    statement = Gaussian(1.0, 1e-6, 1.0, randomness=keyed()).statement()
    assert any("secret" in note for note in statement.notes)
    assert SECRET.hex() not in statement.to_json()
