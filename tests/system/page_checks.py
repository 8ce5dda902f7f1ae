"""What every page must be, wherever it is shown: checks that run inside a real Chromium.

Each answers with a list of complaints, which must be empty. Tests import the ``browser`` from here too.
"""

import io
import shutil

import matplotlib.image
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# Text that runs out of the window, or out of its own box, unless a box of its own scrolls it.
OVERFLOW = """() => {
  const complaints = [];
  const width = document.documentElement.clientWidth;
  const complain = (what, e) => complaints.push(`${what}: ${e.tagName} ${e.textContent.slice(0, 60)}`);
  if (document.documentElement.scrollWidth > width) complaints.push("the page is wider than its window");
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility()) continue;
    const box = e.getBoundingClientRect(), drawing = e.closest("svg");
    if (e.matches(".scroll, pre") && box.right > width + 1) complain("a scrolling box leaves the window", e);
    if (drawing && e.tagName === "text") {
      const frame = drawing.getBoundingClientRect();
      const across = box.left >= frame.left - 1 && box.right <= frame.right + 1;
      const down = box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
      if (!across || !down) complain("text leaves its drawing", e);
    }
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (drawing || !text || e.closest(".scroll, pre, textarea, .unseen, .skip, .columns thead")) continue;
    const range = document.createRange();
    range.selectNodeContents(e);
    if ([...range.getClientRects()].some((line) => line.right > width + 1 || line.left < -1))
      complain("text leaves the window", e);
    const spills = e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1;
    if (getComputedStyle(e).display !== "inline" && spills) complain("text overflows its box", e);
  }
  return complaints;
}"""

# WCAG 2: text has a contrast of 4.5 to what lies behind it, large text of 3; of a gradient, the worst stop.
CONTRAST = """(least = 50) => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const ratio = (a, b) => Math.max(light(a) / light(b), light(b) / light(a));
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const { backgroundImage: image, backgroundColor: colour } = getComputedStyle(at);
      if (image.includes("linear-gradient")) return image.match(/rgb\\([^)]*\\)/g);
      if ((channels(colour)[3] ?? 1) === 1) return [colour];
    }
    return ["rgb(255, 255, 255)"];
  };
  const complaints = [];
  let checked = 0;
  for (const e of document.querySelectorAll("body *")) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!text || !e.checkVisibility() || e.matches("title, desc, script")) continue;
    const style = getComputedStyle(e), drawing = e.closest("svg");
    const mark = e.matches(".number") ? e.parentElement.querySelector(".dot, .attacked") : null;
    const grounds = mark ? [getComputedStyle(mark).fill] : behind(drawing?.parentElement ?? e);
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    const worst = Math.min(...grounds.map((ground) => ratio(drawing ? style.fill : style.color, ground)));
    checked += 1;
    if (worst < (size >= 24 || (size >= 18.66 && bold) ? 3 : 4.5))
      complaints.push(`${worst.toFixed(2)}: ${e.tagName} ${e.getAttribute("class")} ${e.textContent}`);
  }
  if (checked < least) complaints.push(`only ${checked} texts were looked at`);
  return complaints;
}"""

REACHABLE = """() => {
  const stops = 'a[href], button, summary, [tabindex="0"], input, select, textarea';
  // Of a group of choices the keyboard stops at the one that is chosen, and arrows go on from there.
  const visible = [...document.querySelectorAll(stops)].filter((e) =>
    e.checkVisibility() && !e.disabled && e.type !== "hidden" && (e.type !== "radio" || e.checked));
  visible.forEach((e, i) => { e.dataset.stop = i; });
  return visible.length;
}"""
# Where the keyboard stands: the number that REACHABLE gave, and whether an outline shows it in the window; a
# point of a plot has a ring in place of an outline.
STANDING = """() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  const ring = e.querySelector(":scope > .ring"), drawn = ring && getComputedStyle(ring);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const ringed = drawn && drawn.stroke !== "none" && parseFloat(drawn.strokeWidth) >= 2;
  return [e.dataset.stop ?? "", (outlined || ringed) && box.bottom > 0 && box.top < innerHeight];
}"""


@pytest.fixture(scope="module")
def browser():
    """One Chromium for all of these tests; it goes away with them, since its loop would disturb others."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are looked at with playwright")
    if CHROMIUM is None:
        pytest.skip("pages are looked at in Chromium, which is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def screenshot(page):
    """The brightness of each pixel of the window, from 0 to 1."""
    return matplotlib.image.imread(io.BytesIO(page.screenshot()), format="png")[..., :3].mean(axis=2)
