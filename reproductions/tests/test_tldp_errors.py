"""Table 5: every row keeps to its block's promise, and closed forms are those of the drawn errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.noise import Seeded
from sfumato_reproductions.tldp.error_table import SIZES, Block, blocks
from sfumato_reproductions.tldp.paper_candidates import paper_candidates
from sfumato_reproductions.tldp.promise import Promise
from sfumato_reproductions.tldp.protocol import Run
from sfumato_reproductions.tldp.sound_candidates import MIDDLE, sound_candidates
from sfumato_reproductions.tldp.tables import error_markdown, error_text, shown

NAMES = [
    *("Laplace", "Gaussian", "MVG", "IDN", "LLAGP", "DPHSGD"),
    *("TLDP-L", "TLDP-G", "TLDP-L-w", "TLDP-G-w"),
    *(MIDDLE, "GridTensorLDP", "GridTensorLDP, 2 levels"),
    *("Duchi", "Piecewise", "Hybrid", "PrivUnit", "PrivUnitG"),
]


@pytest.fixture(scope="module")
def made() -> tuple[Block, ...]:
    """All blocks, with few draws."""
    return blocks(Run.of((), None, True), lambda stage, share: None)


def test_every_block_has_every_mechanism_at_its_promise(made) -> None:
    assert len(made) == 8
    for block in made:
        assert [line.candidate.name for line in block.lines] == NAMES
        for line in block.lines:
            assert block.promise.kept_by(line.candidate.epsilon), (block.title, line.candidate.name)
            assert line.candidate.shown <= block.promise.delta * (1 + 1e-9)


def test_closed_forms_are_those_of_the_draws(made) -> None:
    """A true closed form fails with probability below 1e-6: 144 rows, 6.2 standard errors."""
    for block in made:
        assert [line.candidate.name for line in block.lines if not line.agrees] == []


def test_a_wrong_closed_form_is_noticed(made) -> None:
    for line in made[4].lines:
        for factor in (0.5, 2.0):
            wrong = replace(line.candidate, closed=line.candidate.closed * factor)
            assert not replace(line, candidate=wrong).agrees


def test_tldp_is_no_better_than_plain_noise_at_the_same_promise(made) -> None:
    for block in made:
        own, plain = (block.line(name).candidate for name in ("TLDP-L", "Laplace"))
        sound = [line.candidate for line in block.lines if not line.candidate.shown]
        assert plain.closed < own.closed
        assert min(each.closed for each in sound if not each.biased) < own.closed / 1.3


def test_the_papers_factor_is_the_number_of_components(made) -> None:
    first = made[0]
    theirs, own = (first.line(name).printed for name in ("Laplace", "TLDP-L"))
    assert theirs is not None
    assert own is not None
    assert theirs.value / own.value == pytest.approx(784.0, rel=2e-3)


@pytest.mark.parametrize("unit", ["component", "tensor"])
def test_what_shows_nothing_needs_no_delta_to_be_pure(unit) -> None:
    """Only TLDP shows something exactly."""
    promise = Promise(unit, 1.0, 1e-5)
    for source in (paper_candidates, sound_candidates):
        for candidate in source(promise, SIZES[1], Seeded(0)):
            assert (candidate.shown > 0.0) == candidate.name.startswith("TLDP")


def test_tables_have_a_row_for_each_line_and_say_where_rows_differ(made) -> None:
    block = made[4]
    assert sum(line.startswith("| ") for line in error_markdown(block).splitlines()) == len(NAMES) + 2
    assert "(differs)" not in error_markdown(block)
    wrong = replace(block.lines[0], drawn=block.lines[0].drawn * 2.0)
    assert "(differs)" in error_markdown(replace(block, lines=(wrong, *block.lines[1:])))
    assert all(name in error_text(block) for name in NAMES)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1e-5, "1.00e−5"), (0.7834, "0.7834"), (1.55e9, "1.55e9"), (0.99998, "1 − 2e−5")],
)
def test_numbers_are_short(value, text) -> None:
    assert shown(value) == text
