"""The dashboard as people meet it: in a real Chromium, wide and narrow, light and dark, by keyboard."""

# ruff: noqa: F811 (fixtures are imported, and then named by those that take them)

import io
import socket
import threading
import time

import numpy as np
import pytest
from page_checks import CONTRAST, OVERFLOW, REACHABLE, STANDING, browser, screenshot  # noqa: F401

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("skimage", reason="the explorer's pictures come with scikit-image")
import uvicorn

from sfumato.release import ReleaseRequest
from sfumato.reports import certificate_file
from sfumato.serve import Service, Settings
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_runner import Runner
from sfumato.serve.proxy.buckets import NewBucket
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.rest import make_app
from sfumato.serve.service import NewKey
from sfumato.serve.trust_policy import Policy

PAGES = {
    "datasets": "/",
    "dataset": "/datasets/ward-7",
    "make a release": "/datasets/ward-7/release",
    "releases": "/releases",
    "audits": "/audits",
    "portrait": "/explorer",
    "digits": "/explorer?sample=digits&epsilon=6&distrust=2",
    "frontier": "/explorer/frontier?sample=cat",
    "check": "/check",
    "trust": "/policy",
    "access": "/access",
    "keys": "/tenant",
    "error": "/datasets/nothing",
    "release": "/releases/{release}",
    "job": "/jobs/{job}",
    "sign in": "/sign-in",
}
BUCKET = {
    "name": "ward-files." + "w" * 52,
    "dataset": "ward-7",
    "tiers": [0, 0.5, 1],
    "files": {
        "array": {"parameters": {"epsilon": [1, 8], "delta": 1e-7, "clip": 1.0}},
        "table": {
            "parameters": {"epsilon": [1, 8]},
            "columns": {name: {"kind": "numeric", "bounds": [0, 120]} for name in ("age", "V" * 120)},
        },
    },
}
RULES = [
    {"readers": ["clinic-a"], "networks": ["10.0.0.0/8"], "distrust": 0.0},
    {"authorisations": ["ethics-approved"], "jurisdictions": ["DE", "FR"], "distrust": 0.4},
]


def npz(rows=200):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(rows, 4)))
    return out.getvalue()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a tenant that has datasets, releases, an audit, keys and a policy."""
    folder = tmp_path_factory.mktemp("dashboard")
    files = folder / "files"
    files.mkdir()
    service = Service(Settings(folder / "service", sources=(f"city-clinic=file://{files}",)))
    tenant = service.registry.create_tenant("city-clinic")
    _, token = service.registry.create_key(tenant.id, name="Data office", role="owner")
    owner = service.registry.authenticate(token)
    for name, epsilon in (("ward-7", 8.0), ("admissions", 4.0)):
        service.open_budget(owner, name, epsilon=epsilon, delta=1e-6)
    file = folder / "visits.npz"
    file.write_bytes(npz())
    for epsilon in (0.5, 1.0, 1.5):
        asked = ReleaseRequest("gaussian", {"epsilon": epsilon, "delta": 1e-7, "clip": 1.0})
        released = service.protect(owner, asked, file, "ward-7")
    hostile = "<script>window.taken = true</script>" + "W" * 120
    service.make_key(owner, NewKey(name=hostile, role="auditor", reader="数据" * 60, datasets=["ward-7"]))
    service.set_policy(owner, Policy.from_dict({"rules": RULES}), None)
    buckets = service.buckets
    buckets.declare(owner, NewBucket.model_validate(BUCKET | {"source": f"file://{files}"}))
    buckets.say(
        owner, "institute", ReaderFacts(authorisations=["ethics-approved", "W" * 120], jurisdiction="DE")
    )
    runner = Runner(service, threads=1, poll=0.2, beat=0.2)
    runner.start()
    audit = service.submit_audit(owner, AuditDescription(), {"original": file}, "ward-7", release=released.id)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(make_app(service), log_level="error", lifespan="off", ws="none")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + 30.0
        while not server.started and time.monotonic() < end:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/ui", token, released, audit
        server.should_exit = True
        thread.join(10)
    runner.stop(5.0)
    service.close()


@pytest.fixture(scope="module")
def cookies(browser, served):
    """Those of somebody who has signed in by keyboard."""
    base, token, *_ = served
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{base}/")
    assert page.url == f"{base}/sign-in"
    assert page.evaluate("document.activeElement.name") == "key"
    page.keyboard.insert_text(token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/")
    kept = context.cookies()
    context.close()
    return kept


@pytest.fixture
def opened(browser, served, cookies):
    """Opens a page of somebody who is signed in; nothing may go wrong in it, or be asked of anybody else."""
    base, _, released, audit = served
    contexts, wrong = [], []

    def open_page(path, width=1280, mode="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=mode, reduced_motion="reduce", **options
        )
        context.add_cookies(cookies)
        contexts.append(context)
        page = context.new_page()

        def told(message):
            if "status of 404" not in message.text and "status of 40" not in message.text:
                wrong.append(f"console: {message.text}")

        page.on("console", told)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on(
            "request", lambda sent: sent.url.startswith(base) or wrong.append(f"asked for {sent.url[:80]}")
        )
        page.goto(base + path.format(release=released.id, job=audit.id))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_looks_right_on_a_screen_and_on_a_phone_in_light_and_dark(opened, name):
    page = opened(PAGES[name])
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVERFLOW) == []
        for mode in ("light", "dark"):
            page.emulate_media(color_scheme=mode)
            assert page.evaluate(CONTRAST, 10) == []
            if (width, mode) in ((1280, "light"), (390, "dark")):
                brightness = screenshot(page)
                assert (brightness.mean() > 0.6) == (mode == "light") or "sample=" in page.url
                assert np.ptp(brightness) > 0.5
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate(OVERFLOW) == []
    assert page.title().endswith("· Sfumato")
    assert page.evaluate("window.taken === undefined")
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize(
    ("name", "width", "mode"),
    [
        ("dataset", 1280, "light"),
        ("make a release", 390, "light"),
        ("audits", 1280, "dark"),
        ("portrait", 390, "dark"),
        ("check", 1280, "dark"),
        ("trust", 390, "light"),
        ("access", 1280, "light"),
        ("access", 390, "dark"),
        ("keys", 1280, "light"),
        ("keys", 390, "dark"),
    ],
)
def test_everything_is_reached_by_keyboard_and_shows_that_it_is(opened, name, width, mode):
    page = opened(PAGES[name], width, mode)
    count = page.evaluate(REACHABLE)
    stops = set()
    for _ in range(count + 8):  # a date is several stops
        page.keyboard.press("Tab")
        stop, shown = page.evaluate(STANDING)
        if stop:
            assert shown, page.evaluate("document.activeElement.outerHTML")[:200]
            stops.add(int(stop))
    assert stops == set(range(count))


def test_a_release_is_planned_in_place_and_then_made(opened, served, tmp_path):
    page = opened("/datasets/ward-7/release")
    assert not page.get_by_label("Trust τ").is_visible()
    page.get_by_label("Mechanism", exact=True).select_option("trust-adaptive")
    assert page.get_by_label("Trust τ").is_visible()
    page.get_by_label("Mechanism", exact=True).select_option("gaussian")
    file = tmp_path / "more.npz"
    file.write_bytes(npz(50))
    page.get_by_label("File", exact=True).set_input_files(file)
    page.locator("input[name=epsilon]").fill("0.25")
    page.get_by_label("δ", exact=True).fill("1e-7")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    assert "a bound on the records" in page.get_by_role("alert").inner_text()
    page.get_by_label("Clipping norm").fill("1")
    assert page.get_by_role("alert").count() == 0
    page.get_by_role("button", name="Show the plan").click()
    page.locator("#status", has_text="It fits the budget").wait_for(state="attached")  # is read out
    page.locator("main").get_by_text("It fits the budget").wait_for()
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate(CONTRAST) == []
    page.get_by_label("Clipping norm").fill("2")
    assert page.locator("main").get_by_text("It fits the budget").count() == 0, (
        "a plan of something else does not stay"
    )
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Release and pay").click()
    page.wait_for_url("**/releases/*")
    assert page.get_by_role("heading", name="release.npz").first.is_visible()
    with page.expect_download() as coming:
        page.get_by_role("link", name="Download the file").click()
    assert coming.value.suggested_filename == "release.npz"
    page.get_by_role("link", name="Report", exact=True).click()
    assert page.get_by_role("heading", name="What this report does not say").is_visible()


def test_a_job_shows_its_progress_by_itself(opened, tmp_path):
    page = opened("/datasets/ward-7/release")
    file = tmp_path / "long.npz"
    file.write_bytes(npz(5000))
    page.get_by_label("File", exact=True).set_input_files(file)
    page.locator("input[name=epsilon]").fill("0.1")
    page.get_by_label("Clipping norm").fill("1")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Release as a background job").click()
    page.wait_for_url("**/jobs/*")
    page.get_by_role("link", name="Show the release").wait_for(timeout=20_000)
    page.goto(page.url.rpartition("/jobs/")[0] + "/audits")
    page.get_by_text("no attack went beyond").wait_for(timeout=20_000)
    page.get_by_role("link", name="Audit of release.npz").click()
    page.wait_for_url("**/jobs/*")
    assert page.get_by_role("columnheader", name="Attacker knows").is_visible()
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate(CONTRAST) == []


DROP = """([file, certificate, name]) => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes(certificate)], `${name}.cert.json`));
  data.items.add(new File([bytes(file)], name));
  const form = document.querySelector("form[data-drop]");
  form.dispatchEvent(new DragEvent("dragenter", { dataTransfer: data, bubbles: true, cancelable: true }));
  const over = form.classList.contains("over");
  form.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  return over;
}"""


def test_a_certificate_is_checked_by_drag_and_drop_and_by_choosing_files(opened, served, tmp_path):
    import base64

    _, _, released, _ = served
    body, certificate = released.file.read_bytes(), certificate_file(released.file).read_bytes()
    page = opened("/check")
    texts = [base64.b64encode(part).decode() for part in (body, certificate)]
    assert page.evaluate(DROP, [*texts, "visits.npz"]) is True
    page.locator("main").get_by_text("Verified").wait_for()
    assert page.get_by_text("Its bytes are those that were certified").is_visible()
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate(CONTRAST) == []
    altered, beside = tmp_path / "visits.npz", tmp_path / "visits.npz.cert.json"
    altered.write_bytes(body[:-1] + b"?")
    beside.write_bytes(certificate)
    page.get_by_label("Released file").set_input_files(altered)
    assert page.locator("main").get_by_text("Verified").count() == 0
    page.get_by_label("Certificate").set_input_files(beside)
    page.get_by_role("button", name="Check").focus()
    page.keyboard.press("Enter")
    page.locator("main").get_by_text("Not verified").wait_for()
    assert "the file did not pass" in page.locator("#found").inner_text()
    assert page.evaluate(CONTRAST) == []


def test_sliders_show_another_release_and_its_own_numbers(opened):
    page = opened("/explorer")
    first = page.locator(".looks img").nth(1).get_attribute("src")
    heading = page.locator("#explored").inner_text()
    slider = page.get_by_label("ε of the most trusted reader")
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "ε\u00a0=\u00a064"
    page.get_by_text("ε\u00a0=\u00a064 for the most trusted").wait_for()
    assert page.locator(".looks img").nth(1).get_attribute("src") != first
    assert page.locator("#explored").inner_text() != heading
    distrust = page.get_by_label("Distrust τ of the reader")
    distrust.focus()
    page.keyboard.press("Home")
    page.get_by_text("A reader of τ\u00a0=\u00a00,").wait_for()
    assert "epsilon=6&distrust=0" in page.url
    assert page.locator("td.proven .headline").inner_text() == "ε\u00a0=\u00a064"
    page.get_by_label("1,797 digits").check()
    page.locator("main").get_by_text("1,797 digits at").wait_for()
    page.get_by_role("heading", name="1,797 digits at").scroll_into_view_if_needed()
    page.locator(".more").scroll_into_view_if_needed()
    page.locator(".more svg.wide .point").first.wait_for(timeout=15_000)
    assert page.evaluate(OVERFLOW) == []
    page.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth)")


def test_colours_chosen_by_hand_stay_on_other_pages(opened):
    page = opened("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.get_by_role("link", name="Releases").click()
    page.wait_for_url("**/releases")
    assert page.evaluate(ground) == dark


def test_a_key_is_made_shown_once_and_revoked_by_hand(opened):
    page = opened("/tenant", permissions=["clipboard-read", "clipboard-write"])
    page.locator("input[name=name]").fill("Short visit")
    page.get_by_label("publisher").check()
    assert page.get_by_label("audit", exact=True).is_disabled()
    page.get_by_role("button", name="Make the key").click()
    page.get_by_role("heading", name="Copy the new key now").wait_for()
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("sfu_")
    page.goto(page.url.replace("/keys", ""))
    assert "sfu_" not in page.content()
    row = page.locator(".row", has=page.get_by_role("heading", name="Short visit"))
    row.get_by_text("Revoke", exact=True).click()
    row.get_by_role("button", name="Revoke the key").click()
    page.locator(".row.revoked", has=page.get_by_role("heading", name="Short visit")).wait_for()


@pytest.mark.parametrize(("width", "scripted"), [(1280, True), (390, False)])
def test_a_bucket_a_reader_and_a_secret_are_made_and_removed_by_hand(opened, width, scripted):
    page = opened("/access", width, java_script_enabled=scripted)
    named = f"walk-{width}"
    bucket, reader = (
        page.locator(".row", has=page.get_by_role("heading", name=name)) for name in (named, "Institute W")
    )
    page.get_by_label("Name of the bucket").fill(named)
    page.get_by_label("Dataset", exact=True).select_option("ward-7")
    page.get_by_label("Tiers").fill("0, 2")
    page.get_by_role("button", name="Declare the bucket").click()
    alarm = page.get_by_role("alert")
    assert "Tiers are 1 to 16 numbers from 0" in alarm.inner_text()
    if scripted:
        page.wait_for_function(
            "document.querySelector('[role=alert]').getBoundingClientRect().top < innerHeight"
        )
    page.get_by_label("Tiers").fill("0, 0.5, 1")
    page.get_by_role("button", name="Declare the bucket").click()
    assert "τ = 0, 0.5, 1" in bucket.inner_text()
    page.get_by_label("Reader", exact=True).fill("Institute W")
    page.get_by_label("Jurisdiction").fill("FR")
    page.get_by_label("Authorisations").fill("ethics-approved")
    page.get_by_role("button", name="Save the reader").click()
    page.wait_for_url("**/access#readers")
    assert "the tier τ = 0.5, the next to τ = 0.4" in reader.inner_text()
    page.get_by_label("Reader who gets it").fill("Institute W")
    page.get_by_role("button", name="Make the access key").click()
    assert page.get_by_role("heading", name="Copy the access key now").is_visible()
    shown = page.get_by_label("The access key", exact=True).inner_text()
    secret = shown.rpartition("=")[2].strip()
    assert len(secret) == 64
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate(CONTRAST) == []
    page.goto(page.url.rpartition("/access")[0] + "/access")
    assert secret not in page.content()
    reader.get_by_role("button", name="Show the secret").click()
    assert secret in page.content()
    page.goto(page.url.rpartition("/access")[0] + "/access")
    reader.get_by_text("Revoke", exact=True).click()
    reader.get_by_role("button", name="Revoke the key").click()
    reader.get_by_text("Forget", exact=True).click()
    reader.get_by_role("button", name="Forget the reader").click()
    assert reader.count() == 0
    bucket.get_by_text("Remove", exact=True).click()
    bucket.get_by_role("button", name="Remove the bucket").click()
    assert bucket.count() == 0


@pytest.mark.parametrize(("width", "mode"), [(1280, "dark"), (390, "light")])
def test_it_works_without_javascript(opened, served, tmp_path, width, mode):
    base, token, released, _ = served
    page = opened("/explorer", width, mode, java_script_enabled=False)
    assert not page.locator("#theme").is_visible()
    # A session of its own, which ends when it is signed out.
    page.context.clear_cookies()
    page.goto(f"{base}/sign-in")
    page.locator("input[name=key]").fill(token)
    page.locator("input[name=key]").press("Enter")
    page.wait_for_url(f"{base}/")
    page.goto(f"{base}/explorer")
    page.get_by_label("A cat").check()
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/explorer?sample=cat*")
    page.get_by_role("link", name="The whole frontier of this sample").click()
    assert page.locator("figure.plot svg:visible").count() == 1
    page.goto(f"{base}/check")
    page.get_by_label("Released file").set_input_files(released.file)
    page.get_by_label("Certificate").set_input_files(certificate_file(released.file))
    page.get_by_role("button", name="Check").click()
    assert page.locator("main").get_by_text("Verified").is_visible()
    page.goto(f"{base}/datasets/admissions/release")
    file = tmp_path / "small.npz"
    file.write_bytes(npz(40))
    page.get_by_label("File", exact=True).set_input_files(file)
    page.locator("input[name=epsilon]").fill("0.05")
    page.get_by_label("Clipping norm").fill("1")
    page.get_by_role("button", name="Show the plan").click()
    assert page.get_by_text("choose it again above").is_visible()
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Release and pay").click()
    page.wait_for_url("**/releases/*")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
