"""Reports as people meet them: in a real Chromium, on a screen and on a phone, light and dark, by keyboard.

The checks run inside the page; each answers with a list of complaints, which must be empty.
"""

from dataclasses import replace

import numpy as np
import pytest
from page_checks import CONTRAST, OVERFLOW, REACHABLE, STANDING, browser, screenshot  # noqa: F401 (fixture)
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits import Finding
from sfumato.ledger import Ledger
from sfumato.privacy import Evidence
from sfumato.reports import Budget, Entry, Frontier, Pictures, Point, write_report
from sfumato.utility import Measure

REPORTS = ["good", "nothing", "alarm", "three", "hostile"]

ABOUT = {"delta": 1e-6, "unit": "record", "neighbours": "replace"}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Five reports of real releases of real images, by name."""
    folder = tmp_path_factory.mktemp("reports")
    data = load_digits()
    X, y = data.data[:300] / 16.0, data.target[:300]
    good = entry(
        "Digits for partners", sf.TrustAdaptive(distrust=0.8, epsilon=(1.0, 8.0), delta=1e-6, clip=4.0), X, y
    )
    embedded = sf.ReverseManifold(alpha=1.0).release(X)
    pairing = (Evidence("pairing attack", 6.1, 1e-5, 0.99, "every pair was found", "record", "replace"),)
    measures = (Measure("accuracy", 0.9),)
    nothing = Entry("Embedded", replace(embedded.statement, measured=pairing), found(0.95, None), measures)
    paper = sf.TrustAdaptive(distrust=0.0, epsilon=(15.0, 80.0), delta=1e-6, clip=4.0, calibration="paper")
    alarm = replace(good, findings=found(0.8, 5.0), pictures=None)
    write_report(
        [good], folder / "good.html", reproduce=["sfumato audit X.npz out.npz --labels y -o report.html"]
    )
    write_report([nothing], folder / "nothing.html", title="Embedded digits")
    write_report([alarm], folder / "alarm.html", date="1 May 2026")
    with Ledger(f"sqlite:///{folder}/budget.db") as ledger:
        ledger.open("clinic", 8.0, 1e-6)
        for purpose in ("partners", "press"):
            ledger.spend("clinic", sf.Gaussian(epsilon=1.0, delta=1e-7, clip=1.0).guarantee(), purpose)
        budget = Budget(ledger.balance("clinic"), ledger.history("clinic"))
    points = [Point("least", 0.2, 1.0, 0.3), Point("partners", 0.5, 2.4, 0.8), Point("more", 0.6, 5.0, 2.0)]
    points += [Point("the paper's noise", 0.9, 600.0, 31.0), Point("embedded", 0.93, None, 61.0)]
    three = [good, nothing, entry("The paper's noise", paper, X, y)]
    write_report(
        three,
        folder / "three.html",
        budget=budget,
        frontier=Frontier(points, "accuracy"),
        reproduce=["pip list"],
    )
    names = ["<script>window.taken = true</script>", "\"'><img src=x onerror=window.taken=true>", "W" * 500]
    names += ["\u202e\u05e9\u05dc\u05d5\u05dd right to left", "数据" * 100]
    hostile = [replace(good, name=name, findings=found(0.6, 0.1, name)) for name in names]
    crowd = Frontier([Point(name, 0.1 * i, float(i), 0.1 * i) for i, name in enumerate(names)], names[2])
    write_report(hostile, folder / "hostile.html", title=names[0] + names[2], frontier=crowd, reproduce=names)
    return folder


def entry(name, mechanism, X, y):
    release = mechanism.release(X)
    shown = Pictures(
        X[:6].reshape(-1, 8, 8),
        np.asarray(release.value)[:6].reshape(-1, 8, 8),
    )
    overlap = np.random.default_rng(0).integers(0, 11, size=len(X)) / 10.0
    return Entry(
        name,
        release.statement,
        found(0.6, 0.4),
        (Measure("accuracy", 0.6), Measure("SSIM", None)),
        shown,
        overlap,
        release.provenance,
    )


def found(auc, epsilon, name="nearest row"):
    return (
        Finding(
            name,
            f"knows all rows; {name}",
            "AUC",
            auc,
            0.5,
            (auc - 0.05, auc + 0.05),
            0.99,
            numbers={name: 1.0},
        ),
        Finding(
            "ridge",
            "knows pairs",
            "relative error",
            0.4,
            0.6,
            (0.3, 0.5),
            0.99,
            higher_is_worse=False,
            note=name,
        ),
        Finding("game", "knows both", "ε", 1.0, 0.0, None, 0.99, epsilon_lower=epsilon, **ABOUT),
    )


@pytest.fixture
def opened(browser, reports):  # noqa: F811 (a fixture)
    """Opens a report in a window of its own; closes it after the test, if nothing went wrong in it."""
    contexts, wrong = [], []

    def open_report(name, width=1280, mode="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=mode, reduced_motion="reduce", **options
        )
        contexts.append(context)
        page = context.new_page()
        address = (reports / f"{name}.html").as_uri()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url[:80]}"))
        page.on(
            "request",
            lambda request: (
                request.url in (address,)
                or request.url.startswith("data:")
                or wrong.append(f"asked for {request.url[:80]}")
            ),
        )
        page.goto(address)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [1280, 360])
def test_it_looks_right_in_light_and_dark(opened, name, width):
    page = opened(name, width)
    assert page.evaluate(OVERFLOW) == []
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        assert page.evaluate(CONTRAST) == []
        brightness = screenshot(page)
        assert (brightness.mean() > 0.6) == (mode == "light")
        assert len(np.unique(np.rint(255 * brightness))) > 50, "the screenshot is all but empty"
        assert np.ptp(brightness) > 0.5
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate("window.taken === undefined")


@pytest.mark.parametrize(("width", "mode"), [(1280, "light"), (360, "dark")])
def test_everything_is_reached_by_keyboard_and_shows_that_it_is(opened, width, mode):
    page = opened("three", width, mode)
    count = page.evaluate(REACHABLE)
    assert count > 60
    stops = []
    for _ in range(count):
        page.keyboard.press("Tab")
        stop, shown = page.evaluate(STANDING)
        assert shown, f"stop {stop} of the keyboard cannot be seen"
        stops.append(int(stop))
    assert sorted(stops) == list(range(count))


def test_the_first_stop_skips_to_the_report(opened):
    page = opened("good")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("#main")


def test_points_name_themselves_when_they_have_the_focus(opened):
    page = opened("three")
    point = page.locator("#frontier ~ figure svg.wide .point").first
    tip = point.locator(".tip")
    assert float(tip.evaluate("e => getComputedStyle(e).opacity")) == 0.0
    point.focus()
    assert float(tip.evaluate("e => getComputedStyle(e).opacity")) == 1.0
    assert point.get_attribute("aria-label") == (
        "1: least; accuracy 0.2; proven ε\u00a0=\u00a01; measured ε, lower bound: 0.3"
    )


def test_dark_colours_can_be_chosen_by_hand(opened):
    page = opened("good")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(ground) != light
    assert page.evaluate(CONTRAST) == []
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(ground) == light


def test_the_table_of_attacks_can_be_sorted(opened):
    page = opened("good")
    cells = "[...document.querySelectorAll('.attacks td:nth-child(4)')].map((e) => Number(e.dataset.value))"
    given = page.evaluate(cells)
    for direction in (1, -1):
        page.get_by_role("button", name="Result").click()
        assert page.evaluate(cells) == sorted(given, key=lambda value: direction * value)
    assert page.locator(".attacks th[aria-sort=descending]").count() == 1


def test_commands_can_be_copied(opened):
    page = opened("good", permissions=["clipboard-read", "clipboard-write"])
    page.locator("#reproduce ~ .code button").click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == "sfumato audit X.npz out.npz --labels y -o report.html"


@pytest.mark.parametrize(("width", "mode"), [(1280, "dark"), (360, "light")])
def test_it_works_without_javascript(opened, width, mode):
    page = opened("three", width, mode, java_script_enabled=False)
    assert page.locator("button").count() == 1  # the one for dark colours, hidden
    assert not page.locator("button").is_visible()
    assert page.locator("#limits").is_visible()
    table = page.locator("#frontier ~ details table")
    assert not table.is_visible()
    page.get_by_text("The frontier as a table").click()
    assert table.is_visible()
    assert np.ptp(screenshot(page)) > 0.5


def test_it_prints_light_and_whole(opened):
    page = opened("three", mode="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(35, 32, 28)"
    assert not page.locator("nav").is_visible()
    assert page.get_by_role("columnheader", name="Attacker knows").first.is_visible()
    assert page.locator(".attacks thead button").first.is_visible(), "the headings stand in these buttons"
    assert len(page.pdf()) > 10_000
