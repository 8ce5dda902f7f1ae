"""A report as a file: whole, self-contained, and silent about where it was made."""

import base64
import getpass
import hashlib
import math
import os
import re
import socket
import stat
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from page_reading import Reading
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.privacy import Evidence, Guarantee, Statement
from sfumato.reports.contact_sheet import Pictures
from sfumato.reports.page import render_report, write_report
from sfumato.reports.page_text import unbroken
from sfumato.reports.plots import Frontier, Point
from sfumato.reports.release_entry import Budget, Entry
from sfumato.utility import Measure, assess

ABOUT = {"delta": 1e-6, "unit": "record", "neighbours": "replace"}


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.data[:60] / 16.0


@pytest.fixture(scope="module")
def entry(digits):
    release = sf.Gaussian(epsilon=2.0, delta=1e-6, clip=4.0).release(digits)
    return Entry(
        "Digits for partners",
        release.statement,
        (
            Finding(
                "nearest row", "knows all rows", "AUC", 0.61, 0.5, (0.55, 0.67), 0.99, numbers={"rows": 60}
            ),
            Finding("ridge", "knows pairs", "error", 0.7, 0.6, (0.6, 0.8), 0.99, higher_is_worse=False),
            Finding("game", "knows both", "ε", 0.8, 0.0, None, 0.99, epsilon_lower=0.8, **ABOUT),
        ),
        (Measure("accuracy", 0.81), Measure("SSIM", None)),
        Pictures(digits[:2].reshape(-1, 8, 8), np.asarray(release.value)[:2].reshape(-1, 8, 8)),
        np.linspace(0.0, 1.0, 60),
        release.provenance,
    )


@pytest.fixture(scope="module")
def whole(entry, tmp_path_factory):
    """The arguments of a report that has every section."""
    with Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/budget.db") as ledger:
        ledger.open("clinic", 8.0, 1e-6)
        ledger.spend("clinic", entry.statement.proven, "partners")
        budget = Budget(ledger.balance("clinic"), ledger.history("clinic"))
    nothing = Entry("Raw", Statement("Raw", {}, None, Guarantee.nothing("no noise was added")))
    points = [Point("a", 0.3, 1.0, 0.2), Point("b", 0.6, 2.0, 0.8), Point("c", 0.7, 9.0), Point("d", 0.9)]
    return {
        "entries": [entry, nothing],
        "title": "Digits",
        "date": "1 May 2026",
        "budget": budget,
        "frontier": Frontier(points, "accuracy"),
        "reproduce": ["sfumato audit digits.npz out.npz"],
    }


@pytest.fixture(scope="module")
def page(whole):
    return render_report(**whole)


def test_sections_come_in_the_order_in_which_they_are_read(page):
    headings = re.findall(r"<h2 id=\"([a-z]+)\"", page)
    assert headings == [
        *("releases", "attacks", "utility", "frontier", "pictures", "neighbourhoods", "budget", "reproduce"),
        *("glossary", "limits"),
    ]
    assert re.findall(r"<li><a href=\"#([a-z]+)\"", page) == headings


def test_the_page_is_well_formed(page):
    reading = Reading(page)
    assert len(reading.ids) == len(set(reading.ids))
    assert reading.headings[0] == 1
    assert reading.headings.count(1) == 1
    assert all(
        below - above <= 1 for above, below in zip(reading.headings, reading.headings[1:], strict=False)
    )
    for attribute in ("aria-labelledby", "href"):
        for _, name, value in reading.attributes:
            if name == attribute and not value.startswith("data:"):
                assert {part.lstrip("#") for part in value.split()} <= set(reading.ids)


def test_the_page_needs_nothing_else(page):
    for tag, name, value in Reading(page).attributes:
        assert name != "style", "the policy allows no styles inside elements"
        assert not name.startswith("on"), (tag, name)
        if name in ("src", "href", "data", "action", "poster", "srcset"):
            assert value.startswith(("#", "data:")), (tag, name, value[:50])
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "http://" not in page
    assert "https://" not in page


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(page):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    for tag, source in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert allowed[source] == f"'sha256-{digest}'"
    assert allowed["default-src"] == "'none'"
    assert allowed["img-src"] == "data:"


@pytest.mark.parametrize("name", ["page.html", "style.css", "script.js", "plots.html"])
def test_templates_are_part_of_the_package(name):
    assert files("sfumato.reports").joinpath("templates", name).is_file()


@pytest.mark.parametrize(
    "words",
    [
        "If any one record were replaced by another,",
        "Nothing is proven.",
        "A weak attack is no proof of privacy",
        "Shows original images: keep this report in-house.",
        "It does not state that a law, rule or standard is complied with.",
        "Not audited: no attack was tried on this release.",
        "0.55 to 0.67 99% confidence",
        "smaller is the stronger attack",
        "beats it",
        "does not beat it",
        "at least 0.8 at δ = 10⁻⁶",
    ],
)
def test_the_page_says(page, words):
    assert words in Reading(page).text


def test_compliance_is_never_stated(page):
    text = Reading(page).text.lower()
    assert not re.search(r"gdpr|hipaa|compliant|certified|anonymous", text)


def test_nothing_says_pictures_where_there_are_none(entry):
    bare = render_report([replace(entry, pictures=None)])
    assert "keep this report in-house" not in bare
    assert "<img" not in bare


def test_an_alarm_stands_at_the_top_and_in_the_card(entry):
    measured = (Evidence("game", 9.0, 1e-6, 0.99, "", "record", "replace"),)
    alarmed = replace(entry, statement=replace(entry.statement, measured=measured))
    page = render_report([alarmed])
    assert page.index("Alarm: an attack went beyond") < page.index("<nav")
    assert 'class="release alarm"' in page
    assert "Alarm: measured exceeds proven" in page


def test_a_template_in_a_name_is_not_run(entry):
    assert "{{ 7 * 7 }}" in render_report([replace(entry, name="{{ 7 * 7 }}")])


def test_numbers_that_are_none_are_told_in_words(entry):
    finding = replace(entry.findings[0], interval=(-math.inf, math.inf), numbers={"ratio": math.nan})
    measures = [Measure("a", math.nan), Measure("b", math.inf), Measure("c", None), Measure("d", 0.5)]
    points = [Point("a", math.nan, math.inf, math.nan), Point("b", 1.0, math.nan, 2.0)]
    page = render_report([replace(entry, findings=(finding,), measures=measures)], frontier=Frontier(points))
    shell = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf)\b|[\">]None[\"<]", shell)
    assert 'data-value="Infinity">nothing' in page
    assert "−∞ to ∞" in page
    assert "not a number" in page


def test_an_assessment_is_told_with_what_to_compare_it_with(entry, digits):
    labels = np.arange(len(digits)) % 2
    found = assess(digits, digits[::-1], labels, image_shape=(8, 8))
    assessed = replace(entry, measures=found.measures, remarks=found.remarks)
    other = replace(entry, measures=[Measure("SSIM", 0.5)])
    text = Reading(render_report([assessed, other])).text
    for measure in found.measures:
        assert measure.name in text
    accuracy = found.measures[0]
    beside = f"original {accuracy.original:.3g}, a guess {accuracy.chance:.3g}"
    assert f"{accuracy.name} {accuracy.value:.4g} {beside}" in text
    assert "smaller is better" in text
    assert all(remark in text for remark in found.remarks)


def test_the_same_arguments_give_the_same_bytes(whole, page):
    assert render_report(**whole) == page


def test_a_date_is_printed_only_if_given(whole, page):
    assert "1 May 2026" in page
    undated = render_report(**whole | {"date": None, "budget": whole["budget"].balance})
    assert "1 May 2026" not in undated
    assert not re.search(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}", Reading(undated).text)


def test_nothing_tells_where_it_was_made(whole, page, tmp_path):
    assert socket.gethostname() not in Reading(page).text
    assert os.getcwd() not in page
    assert str(Path.home()) + "/" not in page
    if getpass.getuser() not in ("root", "user"):
        assert getpass.getuser() not in Reading(page).text
    secret = "/home/jo/clinic/X.npz"
    entry = replace(whole["entries"][0], name=secret, provenance={"source": secret, "list": [secret]})
    told = render_report([entry], reproduce=[f"sfumato protect {secret} -o {tmp_path}/out.npz"])
    assert "jo" not in re.findall(r"\w+", Reading(told).text)
    assert str(tmp_path) not in told
    assert "sfumato protect X.npz -o out.npz" in Reading(told).text


def test_formulas_do_not_break_and_commands_stay_as_they_are(entry):
    assert unbroken("δ = 1, ε ≥ 2 × 10, a = b") == "δ\u00a0=\u00a01, ε\u00a0≥\u00a02\u00a0×\u00a010, a = b"
    page = render_report([entry], reproduce=["echo 'ε = 1'\necho 2"])
    assert "echo &#39;ε = 1&#39;\necho 2\n</pre>" in page


def test_the_file_appears_whole_and_what_is_computed_from_originals_is_its_owners_alone(
    whole, page, tmp_path
):
    output = write_report(output=tmp_path / "report.html", **whole)
    assert output == tmp_path / "report.html"
    assert output.read_text("utf-8") == page
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert "Not for release." in page
    (tmp_path / "ordinary").touch()
    anew = sf.audit(sf.Gaussian(1.0, 1e-6, clip=1.0), mechanism_only=True).findings
    bare = [Entry("bare", whole["entries"][0].statement), Entry("anew", whole["entries"][0].statement, anew)]
    travels = write_report(bare, tmp_path / "travels.html")
    assert stat.S_IMODE(travels.stat().st_mode) == stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    text = travels.read_text("utf-8")
    assert "Not for release." not in text
    assert "it may travel with the release" in text
    assert sorted(os.listdir(tmp_path)) == ["ordinary", "report.html", "travels.html"]


def test_a_utility_verdict_stands_beside_the_privacy_verdict(entry):
    """Proven, and not better than guessing: one page says both."""
    measure = Measure("accuracy", 0.52, original=0.9, chance=0.5, margin=0.05)
    text = Reading(render_report([replace(entry, measures=[measure])])).text
    assert "Not better than guessing beyond chance" in text
    # By a little better than a guess: what chance explains is told beside it.
    assert (
        "accuracy 0.52 original 0.9, a guess 0.5, ± 0.05 by chance not better than a guess beyond chance"
        in text
    )
    text = Reading(render_report([replace(entry, measures=[replace(measure, value=0.7)])])).text
    assert "Better than guessing" in text
    assert "better than a guess beyond chance" not in text
    kept = Reading(render_report([replace(entry, measures=[replace(measure, value=0.89)])])).text
    assert "Nearly as good as the original" in kept
    assert "Utility not judged" in Reading(render_report([replace(entry, measures=())])).text


def test_a_refusal_leaves_an_older_report_as_it_was(whole, entry, tmp_path):
    output = tmp_path / "report.html"
    output.write_text("older")
    budget = whole["budget"]
    with pytest.raises(BadInput, match="must start with its opening"):
        write_report([entry], output, budget=replace(budget, history=budget.history[1:]))
    assert output.read_text() == "older"
    with pytest.raises(BadInput, match="cannot be written"):
        write_report([entry], tmp_path / "missing" / "report.html")


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(BadInput, match="at least one release"):
        write_report([], tmp_path / "report.html")
    assert os.listdir(tmp_path) == []


def test_an_entry_without_a_name_is_refused(entry):
    with pytest.raises(BadInput, match="must have a name"):
        replace(entry, name=" ")
