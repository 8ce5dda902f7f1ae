"""What the pages do: budgets, releases, jobs and audits, keys, trust, certificates, the explorer."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import asyncio
import html
import io
import json
import re
import threading
import time
from datetime import UTC, datetime

import numpy as np
import pytest
from dashboard_client import Person, app, npz, people, release, service, tokens, ward

from sfumato.reports import Scale, certificate_file
from sfumato.serve.jobs.job_runner import Runner
from sfumato.serve.pages.dataset_pages import Moments
from sfumato.serve.pages.explorer import DISTRUSTS, EPSILONS, SAMPLES, Samples, budget
from sfumato.serve.pages.release_pages import offered
from sfumato.serve.pages.tenant_pages import policy_text, rule_in_words
from sfumato.serve.trust_policy import Policy

PLAN = {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6", "clip": "1"}
ONCE = {"once": "0" * 32}
FRAGMENT = {"Sfumato-Fragment": "1"}
FILE = {"file": ("visits.npz", npz())}


@pytest.fixture
def runner(service):
    """Works on jobs, as a server does beside its pages."""
    made = Runner(service, threads=1, poll=0.1, beat=0.1)
    made.start()
    yield made
    made.stop(5.0)


def left_over(service):
    """What lies in the work folder, but for the lock that a living process holds there."""
    return [file for file in service.settings.work.rglob("*") if file.is_file() and file.name != "lock"]


def ended(person, path):
    """The page of a job, once it has ended."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        page = person.get(path).text
        if "data-under-way" not in page:
            return page
        time.sleep(0.1)
    raise AssertionError("the job did not end")


# Budgets


def test_a_budget_is_opened_once_and_shown_with_what_is_left(people):
    owner = people["owner"]
    assert "There is no dataset yet" in owner.get("/").text
    fields = {"dataset": "icu", "epsilon": "4", "delta": "1e-6", "unit": "record", "neighbours": "replace"}
    assert owner.post("/datasets", fields).headers["location"] == "/ui/datasets/icu"
    page = html.unescape(owner.get("/").text)
    assert "0.0% of ε\u00a0=\u00a04" in page
    assert "Nothing was spent yet" in owner.get("/datasets/icu").text
    for wrong, sentence in (
        ({"epsilon": "5"}, "icu"),
        ({"epsilon": "x"}, "The field `epsilon` must be a number."),
        ({"dataset": "a/b"}, "The budget is malformed"),
        ({"epsilon": "-1"}, "greater than 0"),
        ({"unit": "nonsense"}, "nonsense"),
    ):
        answer = owner.post("/datasets", fields | wrong)
        assert answer.status_code in (400, 409), wrong
        assert sentence in answer.text


def test_the_history_of_a_budget_is_drawn_and_told(people, release):
    page = people["auditor"].get("/datasets/ward7").text
    assert page.count('class="wide"') == page.count('class="narrow"') == 1
    assert "How the budget went down" in page
    assert "paid for a release" in page
    assert f'href="/ui/releases/{release.id}"' in page
    steps = re.findall(r'aria-label="Entry (\d), (\w+): ([\d.]+)% left"', page)
    assert [step[:2] for step in steps] == [("1", "open"), ("2", "spend")] * 2  # on both canvases


@pytest.mark.parametrize(
    ("span", "first"),
    [(4, "16:04:01"), (600, "16:05"), (90_000, "18:00"), (5e6, "19 Nov"), (3e8, "Jan 2028")],
)
def test_marks_on_an_axis_of_time_are_moments_that_people_would_name(span, first):
    start = datetime(2026, 11, 16, 16, 4, 0, 500_000, tzinfo=UTC).timestamp()
    scale = Moments(start, start + span, 0.0, 100.0)
    ticks = scale.ticks(6)
    assert 1 <= len(ticks) <= 6
    assert ticks[0].text == first
    assert [tick.at for tick in ticks] == sorted(tick.at for tick in ticks)
    assert all(0.0 <= tick.at <= 100.0 for tick in ticks)
    assert isinstance(scale, Scale)


# Releases


def test_a_plan_spends_nothing_and_its_release_pays_once(service, people, ward, tokens):
    publisher = people["publisher"]
    answer = publisher.post("/datasets/ward7/plan", PLAN, files=FILE)
    assert answer.status_code == 200
    assert "It fits the budget" in answer.text
    assert "choose it again above" in answer.text
    assert 'value="gaussian"' in answer.text
    fragment = publisher.post("/datasets/ward7/plan", PLAN, files=FILE, **FRAGMENT).text
    assert "<html" not in fragment
    assert "choose it again above" not in fragment
    (once,) = re.findall(r'name="once" value="([0-9a-f]{32})"', fragment)
    caller = service.registry.authenticate(tokens["owner"])
    assert service.budget(caller, ward)["spends"] == 0
    done = [publisher.post("/datasets/ward7/release", PLAN | {"once": once}, files=FILE) for _ in range(2)]
    assert {answer.status_code for answer in done} == {303}
    assert done[0].headers["location"] == done[1].headers["location"]
    assert service.budget(caller, ward)["spends"] == 1
    assert left_over(service) == [], "nothing of the file is kept"
    told = re.search(r"goes from 0.0% to ([\d.]+%);", fragment)[1]
    assert f"{told} of ε" in publisher.get("/").text


def test_forms_with_files_take_turns_with_all_else_that_their_tenant_has_under_way(
    service, people, ward, tokens
):
    free = service.direct._free[service.registry.authenticate(tokens["owner"]).tenant]
    service.direct._patience = 0.05

    async def take_all():
        while not free.locked():
            await free.acquire()

    asyncio.run(take_all())
    refused = people["publisher"].post("/datasets/ward7/release", PLAN | ONCE, files=FILE)
    assert refused.status_code == 429
    assert "requests under way" in html.unescape(refused.text)
    assert left_over(service) == []
    free.release()
    assert people["publisher"].post("/datasets/ward7/release", PLAN | ONCE, files=FILE).status_code == 303


@pytest.mark.parametrize("way", ["plan", "release"])
def test_a_form_that_waits_for_its_work_brings_less_than_a_job(service, people, ward, way):
    object.__setattr__(service.settings, "direct_bytes", 2000)
    large = {"file": ("visits.npz", npz(rows=1000))}
    answer = people["owner"].post(f"/datasets/{ward}/{way}", PLAN | ONCE, files=large)
    assert answer.status_code == 413
    assert "larger than 2,000 bytes, the most of a synchronous request; request a job" in answer.text
    assert people["owner"].post(f"/datasets/{ward}/jobs", PLAN | ONCE, files=large).status_code == 303


def test_a_form_is_answered_when_its_work_takes_too_long_and_the_release_is_kept(service, people, ward):
    owner, quick, ended = people["owner"], service.protect, threading.Event()

    def slow(*rest, **words):
        time.sleep(1.0)
        try:
            return quick(*rest, **words)
        finally:
            ended.set()

    service.protect, service.direct._seconds = slow, 0.3
    with owner.browser:  # one loop for all requests, as a server has
        answer = owner.post(f"/datasets/{ward}/release", PLAN | ONCE, files=FILE)
        assert ended.wait(10.0)
        releases = owner.get("/releases").text
    assert answer.status_code == 503
    assert "paid once: look for it among the releases in a while" in answer.text
    assert "release.npz" in releases


def test_a_plan_that_takes_too_long_is_answered(service, people, ward):
    service.plan, service.direct._seconds = lambda *rest: time.sleep(1.0), 0.3
    answer = people["owner"].post(f"/datasets/{ward}/plan", PLAN, files=FILE)
    assert answer.status_code == 503
    assert "longer than 0.3 seconds" in answer.text


def test_what_does_not_fit_is_said_and_not_offered(people, ward):
    fragment = people["owner"].post("/datasets/ward7/plan", PLAN | {"epsilon": "20"}, files=FILE, **FRAGMENT)
    assert "It does not fit the budget" in fragment.text
    assert "Release it" not in fragment.text
    assert (
        people["owner"]
        .post("/datasets/ward7/release", PLAN | ONCE | {"epsilon": "20"}, files=FILE)
        .status_code
        == 409
    )


@pytest.mark.parametrize(
    ("fields", "files", "sentence"),
    [
        ({"epsilon": "much"}, FILE, "The field `epsilon` must be a number."),
        ({"clip": ""}, FILE, "a bound on the records"),
        ({"clip": "", "low": "0"}, FILE, "declared together, or neither"),
        ({"mechanism": "magic"}, FILE, "magic"),
        ({"columns": "{"}, FILE, "declared in JSON"),
        ({}, {"file": ("visits.exe", b"MZ")}, "none of the supported suffixes"),
        ({}, {"file": ("../../x.npz", b"no")}, "x.npz"),
        ({}, {"file": ("a\nb.npz", npz())}, "the name of the file must be"),
        ({}, {"file": ("visits.npz", b"")}, "visits.npz"),
        ({}, {"other": ("visits.npz", npz())}, "No file was chosen"),
    ],
)
def test_a_form_that_cannot_be_followed_keeps_what_was_typed(service, people, ward, fields, files, sentence):
    answer = people["owner"].post("/datasets/ward7/plan", PLAN | fields, files=files)
    assert answer.status_code == 400
    shown = html.unescape(answer.text)
    assert sentence in shown or sentence[0].upper() + sentence[1:] in shown
    assert left_over(service) == []


def test_trust_bounds_and_units_reach_the_mechanism(people, ward):
    owner = people["owner"]
    trusting = {
        "mechanism": "trust-adaptive",
        "epsilon": "1",
        "epsilon_max": "3",
        "distrust": "0.5",
        "clip": "1",
    }
    fragment = owner.post("/datasets/ward7/plan", trusting, files=FILE, **FRAGMENT).text
    assert "TrustAdaptive" in fragment
    assert "ε\u00a0=\u00a02<" in fragment
    laplace = {"mechanism": "laplace", "epsilon": "1", "low": "-3", "high": "3"}
    assert "Laplace" in owner.post("/datasets/ward7/plan", laplace, files=FILE, **FRAGMENT).text


def test_every_mechanism_that_is_offered_can_be_keyed_and_says_which_fields_it_takes():
    import inspect

    from sfumato.mechanisms import MECHANISMS

    found = {name: fields.split() for names in offered().values() for name, fields in names}
    assert all("randomness" in inspect.signature(MECHANISMS[name]).parameters for name in found)
    assert all("epsilon" in fields for fields in found.values())
    assert {"distrust", "epsilon_max", "clip", "low", "high"} <= set(found["trust-adaptive"])
    assert "distrust" not in found["gaussian"]
    assert "unit" in found["plane-means"]


def test_a_release_has_three_columns_and_its_file_certificate_and_report(people, release):
    page = people["auditor"].get(f"/releases/{release.id}").text
    for column in ("Claimed", "Proven", "Measured"):
        assert re.search(rf"<th [^>]*>{column}</th>", page)
    assert release.sha256 in page
    file = people["auditor"].get(f"/releases/{release.id}/file")
    assert file.content == release.file.read_bytes()
    assert file.headers["content-disposition"] == 'attachment; filename="release.npz"'
    certificate = people["auditor"].get(f"/releases/{release.id}/certificate")
    assert certificate.content == certificate_file(release.file).read_bytes()
    report = people["auditor"].get(f"/releases/{release.id}/report")
    assert "What this report does not say" in report.text
    assert "sandbox allow-scripts" in report.headers["content-security-policy"]
    assert "release.npz" in people["auditor"].get("/releases").text


# Bodies


def test_bodies_that_are_no_forms_are_refused(service, people, ward):
    owner = people["owner"]
    proof = owner.proof
    kind = "multipart/form-data; boundary=b"
    whole = f'--b\r\nContent-Disposition: form-data; name="proof"\r\n\r\n{proof}\r\n'.encode()
    for content, content_type in (
        (b"", kind),
        (b"nothing of the kind", kind),
        (whole, kind),  # the end is missing
        (whole + b"--b--\r\n", "multipart/form-data"),
        (whole + b"--b--\r\n", "text/plain"),
        (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", kind),
        (b"--b\r\nX: " + b"y" * 5000 + b"\r\n\r\nx\r\n--b--\r\n", kind),
        (whole * 61 + b"--b--\r\n", kind),
        (
            whole
            + 2 * b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.npz"\r\n\r\nx\r\n'
            + b"--b--\r\n",
            kind,
        ),
    ):
        answer = owner.browser.post("/ui/check", content=content, headers={"Content-Type": content_type})
        assert answer.status_code == 400, content[:80]
    answer = owner.browser.post("/ui/policy", content=b"{}", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    large = owner.post("/datasets/ward7/plan", PLAN, files={"file": ("x.npz", bytes(2 << 20))})
    assert large.status_code == 413
    assert "Too large" in large.text
    assert left_over(service) == []


# Jobs and audits


def test_a_release_can_be_a_job(people, ward, runner):
    publisher = people["publisher"]
    answer = publisher.post("/datasets/ward7/jobs", PLAN | ONCE, files=FILE)
    assert answer.status_code == 303
    path = answer.headers["location"].removeprefix("/ui")
    page = ended(publisher, path)
    assert "Show the release" in page
    (release,) = re.findall(r"/ui(/releases/[0-9a-f]{24})", page)
    assert publisher.get(release).status_code == 200
    assert "Release of" in publisher.get("/audits").text
    assert people["stranger"].get(path).status_code == 404


def test_a_job_can_be_cancelled_before_it_begins(service, people, ward, tokens):
    owner = people["owner"]
    path = owner.post("/datasets/ward7/jobs", PLAN | ONCE, files=FILE).headers["location"].removeprefix("/ui")
    page = owner.get(path).text
    assert "Queued" in page
    assert "data-under-way" in owner.get("/audits", **FRAGMENT).text
    assert "Cancel the job" in page
    assert "Cancel the job" not in people["auditor"].get(path).text
    assert people["auditor"].post(f"{path}/cancel").status_code == 403
    assert people["stranger"].post(f"{path}/cancel").status_code == 404
    assert owner.post(f"{path}/cancel").status_code == 303
    assert "Nothing was spent." in owner.get(path).text
    assert service.budget(service.registry.authenticate(tokens["owner"]), ward)["used"] == 0.0


def test_an_audit_says_what_was_measured_beside_what_is_proven(people, release, runner):
    auditor = people["auditor"]
    assert "not audited" in auditor.get("/releases").text
    assert f'value="{release.id}" selected' in auditor.get(f"/audits?release={release.id}").text
    answer = auditor.post(
        "/audits", {"release": release.id}, files={"original": ("visits.npz", npz(rows=200))}
    )
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"].removeprefix("/ui")
    page = ended(auditor, path)
    assert "no attack went beyond" in page
    assert "Attacker knows" in page
    assert "ε\u00a0≥" in page
    assert "no attack went beyond" in auditor.get("/audits").text
    for other in ("/releases", f"/releases/{release.id}"):
        page = auditor.get(other).text
        assert "no attack went beyond" in page, "what was measured stands beside the release with these bytes"
        assert "not audited" not in page
    assert "sandbox" in auditor.get(f"{path}/report").headers["content-security-policy"]
    assert people["stranger"].get(f"{path}/report").status_code == 404


def test_an_uploaded_release_can_be_audited_and_bad_input_is_told(people, release, runner):
    auditor = people["auditor"]
    files = {
        "original": ("visits.npz", npz(rows=200)),
        "released": ("visits.npz", release.file.read_bytes()),
        "certificate": ("visits.npz.cert.json", certificate_file(release.file).read_bytes()),
    }
    path = auditor.post("/audits", {"dataset": "ward7"}, files=files).headers["location"].removeprefix("/ui")
    assert "no attack went beyond" in ended(auditor, path)
    answer = auditor.post("/audits", {"dataset": "ward7"}, files={"original": ("visits.npz", npz())})
    assert answer.status_code == 400
    assert "An audit needs one release to attack" in answer.text
    wrong = {"original": ("a.png", b"x"), "released": ("b.png", b"x")}
    assert auditor.post("/audits", {"dataset": "ward7"}, files=wrong).status_code == 400


# Keys and trust


def test_a_new_key_is_shown_once_and_works_until_it_is_revoked(app, people, ward):
    owner = people["owner"]
    fields = {"name": "Nightly", "role": "publisher", "datasets": "ward7, other", "scopes": ["plan", "read"]}
    answer = owner.post("/tenant/keys", fields | {"expires": "2099-12-31"})
    assert answer.status_code == 201
    (token,) = re.findall(r"sfu_[0-9a-f]{16}_[0-9a-f]{64}", answer.text)
    page = owner.get("/tenant").text
    assert token not in page
    assert token.rpartition("_")[2] not in page
    assert "only plan, read" in page
    assert "expires 31 December 2099" in page
    person = Person(app)
    person.sign_in(token)
    assert person.get("/datasets/ward7").status_code == 200
    assert person.get("/datasets/ward7/release").status_code == 200
    assert "Make a release" not in person.get("/datasets/ward7").text
    key = token.split("_")[1]
    assert owner.post(f"/tenant/keys/{key}/revoke").status_code == 303
    assert person.get("/").status_code == 303
    assert "revoked" in owner.get("/tenant").text


def test_a_key_that_expires_makes_none_that_outlasts_it(app, people):
    fields = {"name": "n", "role": "owner"}
    made = people["owner"].post("/tenant/keys", fields | {"expires": "2098-12-31"})
    (token,) = re.findall(r"sfu_[0-9a-f]{16}_[0-9a-f]{64}", made.text)
    person = Person(app)
    person.sign_in(token)
    assert person.post("/tenant/keys", fields).status_code == 201
    assert person.get("/tenant").text.count("expires 31 December 2098") == 2
    answer = person.post("/tenant/keys", fields | {"expires": "2099-01-01"})
    assert answer.status_code == 403
    assert "key cannot outlast the key that makes it" in answer.text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": ""}, "The name of a key must be"),
        ({"role": "king"}, "A role is one of"),
        ({"scopes": ["keys"]}, "The scopes of a key of role auditor"),
        ({"datasets": "a/b"}, "The name of a dataset must be"),
        ({"expires": "tomorrow"}, "at the end of a day"),
        ({"expires": "2020-01-01"}, "in the future"),
    ],
)
def test_a_key_that_cannot_be_made_is_explained(people, fields, sentence):
    answer = people["owner"].post("/tenant/keys", {"name": "n", "role": "auditor"} | fields)
    assert answer.status_code == 400
    assert sentence in html.unescape(answer.text)


def test_a_policy_is_checked_saved_and_never_undone_unseen(people):
    owner = people["owner"]
    text = '{"rules": [{"readers": ["a"], "distrust": 0.25}]}'
    page = owner.post("/policy", {"policy": text, "after": "0", "do": "check"}).text
    assert "This is a policy of 1 rule; it is not in force yet." in page
    assert "No policy was set yet" in owner.get("/policy").text
    assert owner.post("/policy", {"policy": text, "after": "0", "do": "save"}).status_code == 303
    assert "τ\u00a0=\u00a00.25" in html.unescape(owner.get("/policy").text)
    late = owner.post("/policy", {"policy": '{"rules": []}', "after": "0", "do": "save"})
    assert late.status_code == 409
    assert "The policy is at version 1, not 0" in late.text
    assert 'name="after" value="1"' in late.text, "what is saved next replaces what was shown"
    assert owner.post("/policy", {"policy": '{"rules": []}', "after": "1", "do": "save"}).status_code == 303
    wrong = owner.post("/policy", {"policy": '{"rules": [{"distrust": 2}]}', "after": "2", "do": "save"})
    assert wrong.status_code == 400
    assert "Distrust of rule 1 of the policy must be a number from 0 to 1" in wrong.text
    assert "&#34;distrust&#34;: 2" in wrong.text


def test_rules_are_told_in_words_and_written_one_a_line():
    policy = Policy.from_dict(
        {
            "rules": [
                {"readers": ["b", "a"], "networks": ["10.0.0.0/8"], "distrust": 0},
                {"authorisations": ["x", "y"], "min_age_days": 5, "max_age_days": 9, "distrust": 0.5},
                {"distrust": 0.9},
            ]
        }
    )
    assert [rule_in_words(rule) for rule in policy.rules] == [
        "if the reader is a or b and the address lies in 10.0.0.0/8",
        "if the reader has x and y and the data is 5 days old or older and the data is younger than 9 days",
        "always",
    ]
    assert policy_text(policy).count("\n") == 4
    for one in (policy, Policy()):
        assert Policy.from_json(policy_text(one)) == one


# Certificates


def test_a_file_is_verified_or_it_is_said_which_check_failed(service, people, release):
    body, certificate = release.file.read_bytes(), certificate_file(release.file).read_bytes()

    def checked(body, certificate, who="auditor", **headers):
        files = {"file": ("visits.npz", body), "certificate": ("c.json", certificate)}
        return people[who].post("/check", files=files, **headers).text

    page = checked(body, certificate)
    assert "Verified" in page
    assert page.count("✓") == 0
    assert page.count('class="holds"') == 4
    assert re.search(r"entry 2 of .{1,6}ward7.{1,6} paid for it", html.unescape(page), re.IGNORECASE)
    altered = checked(body + b" ", certificate, **FRAGMENT)
    assert "Not verified" in altered
    assert "the file did not pass" in altered
    assert "<html" not in altered
    assert "Proven" not in altered, "nothing is promised of another file"
    assert "Not verified" in checked(body, b"{}")
    forged = json.loads(certificate)
    forged["payload"] = forged["payload"][:-8] + "AAAAAAA="
    assert "Not verified" in checked(body, json.dumps(forged).encode())
    theirs = html.unescape(checked(body, certificate, who="stranger"))
    assert "ward7" not in theirs.replace("visits.npz", "")
    assert left_over(service) == []


# The explorer


def test_the_picture_and_the_numbers_beside_it_are_of_one_computation(people, tmp_path):
    pytest.importorskip("skimage", reason="the extra media is not installed")
    from PIL import Image

    from sfumato.utility import ssim

    for sample in ("astronaut", "cat"):
        page = people["auditor"].get(f"/explorer?sample={sample}&epsilon=5&distrust=4").text
        sources = re.findall(r'src="/ui(/explorer/[^"]*\.png)"', page)
        assert len(sources) == 2
        before, after = (
            np.asarray(Image.open(io.BytesIO(people["auditor"].get(source).content))) for source in sources
        )
        found = ssim(before[None], after[None], data_range=255.0)[0]
        assert f'<p class="headline">{found:.3g}</p>' in page
        assert f"ε\u00a0=\u00a0{budget(EPSILONS[5], DISTRUSTS[4]):.4g}" in page


def test_digits_are_released_by_the_mechanism_and_learned_from(people):
    little, much = (
        people["auditor"].get(f"/explorer?sample=digits&epsilon={place}&distrust=0", **FRAGMENT).text
        for place in (0, len(EPSILONS) - 1)
    )
    accuracy = [float(re.search(r'headline">([\d.]+)%', page)[1]) for page in (little, much)]
    assert accuracy[0] < 45.0 < 80.0 < accuracy[1]
    assert "analytic Gaussian" in little
    assert "promises nothing practical" in much
    assert "<html" not in much


def test_samples_are_the_same_in_every_process_and_other_ones_elsewhere():
    first, again, other = (Samples(secret * 32).shown("digits", 8.0, 0.5) for secret in (b"a", b"a", b"b"))
    assert first.after == again.after
    assert first.utility == again.utility
    assert first.after != other.after
    assert first.before == other.before
    assert first.statement.proven.epsilon() == pytest.approx(4.5)


def test_the_explorer_shows_nothing_but_its_own(people):
    auditor = people["auditor"]
    for query in (
        "sample=ward7",
        "epsilon=9",
        "epsilon=-1",
        "distrust=11",
        "epsilon=1e3",
        "distrust=x",
        "epsilon=²",
    ):
        assert auditor.get(f"/explorer?{query}").status_code == 400
    assert auditor.get("/explorer/digits/0/0/inside.png").status_code == 400
    assert auditor.get("/explorer/ward7/0/0/after.png").status_code == 400
    frontier = auditor.get("/explorer/frontier?sample=digits", **FRAGMENT).text
    assert frontier.count('class="point"') == 2 * len(EPSILONS)
    assert set(SAMPLES) == {"astronaut", "cat", "digits"}
