"""Drawings of a report: scales, the frontier and its knee, histograms, the burn-down, pictures."""

import io
import math

import matplotlib.image
import numpy as np
import pytest

import sfumato as sf
from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.privacy import Claim, Evidence, Guarantee, Statement, format_upper
from sfumato.reports.contact_sheet import Pictures, png
from sfumato.reports.plots import NARROW, WIDE, Frontier, FrontierPlot, Histogram, Point, Scale
from sfumato.reports.release_entry import Budget, BurnDown, Entry, thinned
from sfumato.reports.sections import Ruler, Strip

LINE = Scale(0.0, 10.0, 0.0, 100.0)


@pytest.mark.parametrize("values", [[0.3], [1.0, 9.0], [0.1, 685.0], [1e6], [0.0], []])
def test_a_scale_of_epsilon_starts_at_nothing_and_holds_every_value(values):
    scale = Scale.of_epsilon(values, 10.0, 110.0)
    assert scale(0.0) == 10.0
    assert all(10.0 <= scale(value) < 110.0 for value in values)
    assert scale.logarithmic == any(value > 10.0 for value in values)
    places = [tick.at for tick in scale.ticks()]
    assert 2 <= len(places) <= 6
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    "values", [[0.4, 0.9], [0.71, 0.73], [-3.0, 12.0], [5.0], [0.0], [1.0], [21.3, 21.3]]
)
def test_a_scale_around_values_holds_them_with_round_ticks(values):
    scale = Scale.around(values, 0.0, 100.0)
    assert scale.low <= min(values) <= max(values) <= scale.high
    assert scale.low < scale.high
    assert 1 <= len(scale.ticks()) <= 6


def test_what_lies_outside_a_scale_stands_on_its_end():
    assert [LINE(-math.inf), LINE(11.0), LINE(math.inf)] == [0.0, 100.0, 100.0]


def test_whole_numbers_and_percentages_are_written_as_such():
    assert [tick.text for tick in Scale(1, 4, 0, 100, whole=True).ticks(8)] == ["1", "2", "3", "4"]
    shares = Scale(0, 1, 0, 100, percent=True).ticks(6)
    assert [tick.text for tick in shares] == ["0%", "20%", "40%", "60%", "80%", "100%"]


def drawn(*points):
    return FrontierPlot.drawn(Frontier([Point(*point) for point in points]))[0]


def test_the_line_joins_the_releases_that_no_other_beats():
    plot = drawn(("a", 0.2, 1.0), ("b", 0.5, 2.0), ("c", 0.4, 3.0), ("d", 0.6, 3.0), ("e", 0.9, None))
    a, b, _, d, _ = plot.marks
    assert plot.line == f"M{a.x} {a.y}H{b.x}V{b.y}H{d.x}V{d.y}H{plot.axes.x.end}"
    assert drawn(("e", 0.9, None)).line == ""


@pytest.mark.parametrize(
    ("points", "number"),
    [
        ([("a", 0.0, 0.0), ("b", 0.8, 1.0), ("c", 1.0, 10.0)], 2),
        ([("a", 0.0, 0.0), ("b", 0.2, 1.0), ("c", 0.9, 4.0), ("d", 1.0, 10.0), ("e", 1.0, None)], 3),
        ([("a", 0.0, 0.0), ("b", 0.2, 9.0), ("c", 1.0, 10.0)], None),  # it only gets steeper
        ([("a", np.float32(0.0), np.float32(0.0)), ("c", 1.0, 10)], None),
        ([("a", 0.2, 1.0), ("b", 0.6, 9.0), ("c", 0.8, 600.0)], 2),  # on the axis of log(1 + ε)
        ([("a", 0.5, 1.0), ("b", 0.6, 1.0), ("c", 0.7, 1.0)], None),
        ([("a", 0.5, 1.0), ("b", 0.6, 1.0 + 1e-15), ("c", 0.7, 1.0 + 3e-15), ("d", 0.1, 1e5)], None),
    ],
)
def test_the_knee_stands_farthest_above_the_straight_line(points, number):
    assert [mark.number for mark in drawn(*points).marks if mark.knee] == ([] if number is None else [number])


def test_points_of_which_nothing_is_proven_stand_beyond_the_axis():
    frontier = Frontier([Point("a", 0.5, 1.0, 0.4), Point("b", 0.9, None, 3.0), Point("c", 0.8, math.inf)])
    (wide, narrow) = FrontierPlot.drawn(frontier)
    assert (wide.axes.canvas, narrow.axes.canvas) == (WIDE, NARROW)
    assert [mark.bounded for mark in wide.marks] == [True, False, False]
    assert wide.marks[1].x == wide.marks[2].x == wide.gutter > wide.axes.x.end
    assert wide.marks[0].measured_x < wide.marks[0].x
    assert "nothing proven" in wide.marks[1].label
    assert wide.marks[2].measured_x is None


def test_a_utility_that_is_no_number_is_not_drawn():
    frontier = Frontier([Point("a", math.nan, 1.0), Point("b", 0.5, 1.0)])
    (wide, _) = FrontierPlot.drawn(frontier)
    assert [mark.number for mark in wide.marks] == [2]
    assert FrontierPlot.drawn(Frontier([Point("a", math.nan, 1.0)])) == []


def test_every_row_is_in_one_bar():
    overlap = np.arange(11) / 10.0
    wide, narrow = Histogram.drawn(overlap)
    assert [bar.count for bar in wide.bars] == [1] * 9 + [2]
    assert [bar.count for bar in narrow.bars] == [bar.count for bar in wide.bars]
    assert wide.mean == "0.5"
    tenths = np.array([0.1 + 0.2, 0.7, 0.29999999])
    assert [bar.count for bar in Histogram.drawn(tenths)[0].bars] == [0, 0, 1, 1, 0, 0, 0, 1, 0, 0]


def test_the_burn_down_ends_where_the_balance_stands(tmp_path):
    price = sf.Gaussian(epsilon=1.0, delta=1e-7, clip=1.0).guarantee()
    with Ledger(f"sqlite:///{tmp_path}/budget.db") as ledger:
        ledger.open("clinic", 8.0, 1e-6)
        ledger.spend("clinic", price, "first")
        hold = ledger.hold("clinic", price)
        ledger.release_hold("clinic", hold.number)
        ledger.spend("clinic", Guarantee.pure(2.0), "second")
        budget = Budget(ledger.balance("clinic"), ledger.history("clinic"))
    steps = budget.steps()
    assert [step.kind for step in steps] == ["open", "spend", "hold", "release", "spend"]
    assert steps[0].left == 1.0
    assert steps[1].left == steps[3].left > steps[2].left
    assert steps[-1].left == 1.0 - budget.balance.used
    assert [len(plot.points) for plot in BurnDown.drawn(steps)] == [5, 5]
    assert BurnDown.drawn(steps[:1]) == []
    with pytest.raises(BadInput, match="must start with its opening"):
        Budget(budget.balance, budget.history[1:]).steps()


def test_a_budget_used_up_by_one_release_has_nothing_left(tmp_path):
    with Ledger(f"sqlite:///{tmp_path}/budget.db") as ledger:
        ledger.open("clinic", 1.0, 1e-6)
        ledger.spend("clinic", sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0).guarantee())
        budget = Budget(ledger.balance("clinic"), ledger.history("clinic"))
    assert budget.balance.state == "exhausted"
    assert budget.steps()[-1].left == 0.0


def test_a_long_history_has_few_stops_of_the_keyboard():
    assert thinned(5) == [0, 1, 2, 3, 4]
    many = thinned(10_000)
    assert len(many) == 40
    assert (many[0], many[-1]) == (0, 9_999)


def ruled(proven, measured=None, claimed=None):
    evidence = () if measured is None else (Evidence("game", measured, 1e-6, 0.99, "", "record", "replace"),)
    claim = (
        None
        if claimed is None
        else Claim(text="t", source="s", epsilon=claimed, unit="record", neighbours="replace")
    )
    return Ruler.drawn(Entry("R", Statement("M", {}, claim, proven, evidence)))


def test_the_ruler_puts_measured_before_proven():
    for ruler in ruled(Guarantee.approximate(2.0, 1e-6), 0.5, 1.0):
        assert ruler.measured < ruler.claimed < ruler.proven < ruler.end
        assert not ruler.alarm
        assert ruler.said == ("ε at δ = 10⁻⁶: at most 2 is proven, at least 0.5 was measured, 1 is claimed.")


def test_the_ruler_has_no_end_where_nothing_is_proven_and_turns_in_an_alarm():
    nothing = Guarantee.nothing("no noise")
    assert ruled(nothing) == []
    assert ruled(nothing, 3.0)[0].proven is None
    (wide, _) = ruled(Guarantee.approximate(1.0, 1e-6), 3.0)
    assert wide.alarm
    assert wide.measured > wide.proven


def test_the_ruler_has_one_unit():
    component, tensor = Guarantee.pure(1.0, unit="component"), Guarantee.pure(784.0, unit="tensor")
    game = Evidence("game", 3.7, 0.0, 0.99, "", "tensor", "replace")
    made = Claim(text="t", source="s", epsilon=2.0, delta=0.0, unit="component", neighbours="replace")
    ruler = Ruler.drawn(Entry("R", Statement("M", {}, made, component, (game,), also_proven=(tensor,))))[0]
    assert "at most 784 is proven, at least 3.7 was measured." in ruler.said
    assert "per tensor" in ruler.heading
    ruler = Ruler.drawn(Entry("R", Statement("M", {}, made, component, (game,))))[0]
    assert "at most 1 is proven, nothing was measured, 2 is claimed." in ruler.said


def test_the_ruler_compares_at_the_delta_of_the_attack():
    guarantee = sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0).guarantee()
    evidence = Evidence("game", 0.1, 1e-3, 0.99, "", "record", "replace")
    entry = Entry("R", Statement("M", {}, None, guarantee, (evidence,)))
    assert (
        f"δ = 0.001: at most {format_upper(guarantee.epsilon(1e-3))} is proven" in Ruler.drawn(entry)[0].said
    )


@pytest.mark.parametrize("interval", [None, (0.4, 0.6), (-math.inf, math.inf), (3.0, 3.0)])
def test_a_strip_stays_inside_its_width(interval):
    strip = Strip.of(Finding("a", "t", "m", 0.5, 0.5, interval, 0.99))
    places = [strip.value, strip.chance, strip.low, strip.high]
    assert all(0.0 < place < strip.width for place in places if place is not None)


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (5, 9), (3, 4, 3)])
def test_a_png_holds_the_picture(shape):
    image = np.random.default_rng(0).integers(0, 256, size=shape, dtype=np.uint8)
    read = matplotlib.image.imread(io.BytesIO(png(image)), format="png")
    assert np.array_equal(np.rint(255.0 * read).astype(np.uint8), image)


def test_pictures_are_shown_on_their_span():
    pictures = Pictures(np.array([[[0.0, 16.0]]]), np.array([[[-5.0, 8.0, 99.0]]]), span=(0.0, 16.0))
    assert pictures.levels(pictures.before).tolist() == [[[0, 255]]]
    assert pictures.levels(pictures.after).tolist() == [[[0, 128, 255]]]
    assert pictures.clipped == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"before": np.zeros((2, 4))}, "shape"),
        ({"before": np.zeros((2, 4, 4, 2))}, "shape"),
        ({"after": np.full((2, 4, 4), np.nan)}, "no finite numbers"),
        ({"after": np.zeros((2, 4, 4), dtype=object)}, "no finite numbers"),
        ({"after": np.zeros((3, 4, 4))}, "2 pictures before and 3 after"),
        ({"before": np.zeros((65, 1, 1)), "after": np.zeros((65, 1, 1))}, "at most 64"),
        ({"span": (1.0, 1.0)}, "span"),
    ],
)
def test_pictures_that_cannot_be_shown_are_refused(changes, sentence):
    given = {"before": np.zeros((2, 4, 4)), "after": np.zeros((2, 4, 4))} | changes
    with pytest.raises(BadInput, match=sentence):
        Pictures(**given)
