"""Pages for people: who gets in, what they are offered, and what nobody may do to somebody else."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import os
import re
import time

import pytest
from dashboard_client import Person, app, npz, people, proof_in, release, service, tokens, ward

from sfumato.serve.authentication import ApiKey
from sfumato.serve.pages.pages_app import make_dashboard
from sfumato.serve.pages.sign_in import LIFETIME_SECONDS, Sessions
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import NewKey, Service
from sfumato.serve.settings import Settings

OWNER = ApiKey("t" + "0" * 16, "1" * 16, "owner")
PLAN = {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6", "clip": "1", "once": "0" * 32}
PAGES = (
    "/",
    "/releases",
    "/audits",
    "/explorer",
    "/explorer/frontier?sample=cat",
    "/check",
    "/policy",
    "/access",
    "/tenant",
)


def routes(service, method):
    """The paths of all pages that answer to ``method``, with names in place of what varies."""
    made = make_dashboard(service)
    paths = [route.path for route in made.routes if method in route.methods]
    return [re.sub(r"\{[^}]*\}", "0", path) for path in paths]


# Signing in and out


def test_a_key_opens_a_session_and_shows_up_nowhere(app, tokens, ward):
    person = Person(app)
    assert person.get("/").headers["location"] == "/ui/sign-in"
    answer = person.sign_in(tokens["owner"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/")
    cookie = answer.headers["set-cookie"]
    assert {"httponly", "path=/ui", f"max-age={LIFETIME_SECONDS}"} <= set(cookie.lower().split("; "))
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()
    assert person.get("/").status_code == 200
    for page in PAGES:
        assert person.get(page).status_code == 200, page
    secret = tokens["owner"].rpartition("_")[2]
    for seen in person.seen:
        assert secret not in seen.text
        assert secret not in str(seen.headers)
        assert secret not in str(seen.request.url)


def test_cookies_are_secure_where_the_connection_is(app, tokens):
    answer = Person(app, scheme="https").sign_in(tokens["owner"])
    assert "secure" in answer.headers["set-cookie"].lower().split("; ")
    behind = Person(app)
    behind.browser.headers["X-Forwarded-Proto"] = "https"
    assert "secure" in behind.get("/sign-in").headers["set-cookie"].lower().split("; ")


def test_signing_out_ends_the_session(people):
    owner = people["owner"]
    assert owner.post("/sign-out").headers["location"] == "/ui/sign-in"
    assert owner.get("/").headers["location"] == "/ui/sign-in"


def test_a_wrong_key_is_told_and_counted_with_those_of_the_api(app, tokens):
    person = Person(app)
    wrong = tokens["owner"][:-4] + "0000"
    for number in range(10):
        if number % 2:
            answer = person.browser.get("/v1/me", headers={"Authorization": f"Bearer {wrong}"})
        else:
            answer = person.sign_in(wrong)
        assert answer.status_code == 401
    for answer in (
        person.sign_in(tokens["owner"]),
        person.browser.get("/v1/me", headers={"Authorization": f"Bearer {tokens['owner']}"}),
    ):
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
    assert "no valid key" not in person.seen[-1].text
    assert wrong not in "".join(seen.text for seen in person.seen)


def test_a_revoked_key_ends_its_sessions_at_the_next_request(service, people, tokens):
    owner = service.registry.authenticate(tokens["owner"])
    auditor = service.registry.authenticate(tokens["auditor"])
    assert people["auditor"].get("/").status_code == 200
    service.revoke_key(owner, auditor.id)
    answer = people["auditor"].get("/")
    assert answer.headers["location"] == "/ui/sign-in"
    assert 'sfumato_session="";' in answer.headers["set-cookie"]
    assert people["owner"].get("/").status_code == 200


def test_every_process_of_a_service_knows_the_sessions_of_the_others(tmp_path, service, people):
    other = Service(Settings(tmp_path / "service"))
    person = Person(make_app(other))
    person.browser.cookies = people["owner"].browser.cookies
    assert person.get("/").status_code == 200
    assert person.proof == people["owner"].proof
    other.close()


def test_a_cookie_that_was_signed_out_opens_nothing_in_any_process(tmp_path, people):
    owner = people["owner"]
    cookie = owner.browser.cookies["sfumato_session"]
    again = Person(owner.browser.app)
    again.browser.cookies.set("sfumato_session", cookie)
    assert again.get("/").status_code == 200
    assert owner.post("/sign-out").status_code == 303
    other = Service(Settings(tmp_path / "service"))
    elsewhere = Person(make_app(other))
    elsewhere.browser.cookies.set("sfumato_session", cookie)
    for person in (again, elsewhere):
        assert person.get("/").headers["location"] == "/ui/sign-in"
    assert people["auditor"].get("/").status_code == 200
    other.close()


def test_notes_of_sessions_that_ended_are_removed_when_their_cookies_have_expired(tmp_path):
    sessions = Sessions(b"s" * 32, tmp_path / "ended")
    sessions.end(sessions.opened(OWNER))
    (old,) = (tmp_path / "ended").iterdir()
    os.utime(old, (0, 0))
    sessions.end("no cookie of ours")
    assert old.exists()
    cookie = sessions.opened(OWNER)
    sessions.end(cookie)
    assert sessions.read(cookie) is None
    assert len(list((tmp_path / "ended").iterdir())) == 1
    assert not old.exists()


def test_a_session_counts_for_eight_hours_and_not_if_it_was_altered(tmp_path):
    now = [1_000_000.0]
    sessions = Sessions(b"s" * 32, tmp_path, clock=lambda: now[0])
    cookie = sessions.opened(OWNER)
    found = sessions.read(cookie)
    assert (found.tenant, found.key_id) == (OWNER.tenant, OWNER.id)
    assert sessions.opened(OWNER) != cookie
    for place in range(len(cookie)):
        letter = "0" if cookie[place] != "0" else "1"
        assert sessions.read(cookie[:place] + letter + cookie[place + 1 :]) is None
    for wrong in (None, "", "0", cookie[:-1], cookie + "0", cookie.upper(), cookie + "\n"):
        assert sessions.read(wrong) is None
    assert Sessions(b"t" * 32, tmp_path, clock=lambda: now[0]).read(cookie) is None
    now[0] += LIFETIME_SECONDS - 1
    assert sessions.read(cookie) == found
    now[0] += 1
    assert sessions.read(cookie) is None


@pytest.mark.parametrize(
    ("to", "end"),
    [
        ("/releases", "/ui/releases"),
        ("//evil.example", "/ui/"),
        ("/\\evil", "/ui/"),
        ("https://evil", "/ui/"),
    ],
)
def test_after_signing_in_one_is_where_one_wanted_to_go_and_never_elsewhere(app, tokens, to, end):
    assert Person(app).sign_in(tokens["owner"], to).headers["location"] == end


def test_the_page_that_was_wanted_is_remembered(app, tokens):
    assert Person(app).get("/datasets/ward7").headers["location"] == "/ui/sign-in?to=%2Fdatasets%2Fward7"


# What is refused to everybody


def test_no_page_is_shown_to_those_who_are_not_signed_in(app, service):
    person = Person(app)
    paths = [path for path in routes(service, "GET") if path not in ("/sign-in", "/static/0")]
    assert len(paths) > 12
    for path in paths:
        answer = person.get(path)
        assert (answer.status_code, answer.text) == (303, ""), path
        assert answer.headers["location"].startswith("/ui/sign-in")


def test_no_form_does_anything_without_its_proof(service, people, ward, release):
    owner = people["owner"]
    paths = routes(service, "POST")
    assert len(paths) > 9
    before = service.ledger.history(next(iter(service.ledger.names())))
    for path in paths:
        upload = path in ("/check", "/audits") or path.startswith("/datasets/")
        files = {"file": ("x.npz", npz())} if upload else None
        for proof in ("", "0" * 64, people["stranger"].proof, "ü"):
            answer = owner.post(path, {"dataset": "new"}, files=files, proof=proof)
            assert answer.status_code == 403, path
            assert "not one of yours" in answer.text
        answer = owner.post(path, files=files, **{"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403, path
        assert "another site" in answer.text
    assert owner.get("/").status_code == 200, "nobody was signed out"
    assert service.ledger.history(next(iter(service.ledger.names()))) == before
    assert len(service.ledger.names()) == 1


def test_every_answer_forbids_what_pages_do_not_need(people):
    for path in (*PAGES, "/nothing", "/static/style.css"):
        headers = people["owner"].get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] in ("no-store", "public, max-age=3600")
        page = people["owner"].get(path).text
        assert not re.search(r"<[^>]*\s(style|on\w+)=", page), "the policy stops what stands in tags"
        assert not re.search(r"(src|href)=\"(https?:)?//", page), "nothing comes from elsewhere"


# Roles


def test_what_a_key_may_not_do_is_not_offered_and_refused_if_posted(service, people, ward, release):
    offers = {
        "Open a budget": ("/", ["owner"]),
        "Make a release": ("/datasets/ward7", ["owner", "publisher"]),
        "Plan a release": ("/datasets/ward7", ["auditor"]),
        "Start an audit": ("/audits", ["owner", "auditor"]),
        "Make a key": ("/tenant", ["owner"]),
        ">Trust</a>": ("/", ["owner"]),
        "Revoke": ("/tenant", ["owner"]),
    }
    for words, (path, allowed) in offers.items():
        for role in ("owner", "publisher", "auditor"):
            assert (words in people[role].get(path).text) == (role in allowed), (words, role)
    files = {"file": ("x.npz", npz())}
    forms = [
        (
            "/datasets",
            {"dataset": "n", "epsilon": "1", "delta": "0", "unit": "record", "neighbours": "replace"},
            None,
        ),
        ("/tenant/keys", {"name": "mine", "role": "owner"}, None),
        ("/tenant/keys/0000000000000000/revoke", {}, None),
        ("/policy", {"policy": '{"rules": []}', "do": "save", "after": "0"}, None),
    ]
    for path, fields, sent in forms:
        for role in ("publisher", "auditor"):
            assert people[role].post(path, fields, files=sent).status_code == 403, (path, role)
    assert people["auditor"].post("/datasets/ward7/release", PLAN, files=files).status_code == 403
    assert people["auditor"].post("/datasets/ward7/jobs", PLAN, files=files).status_code == 403
    audit = {"original": ("x.npz", npz())}
    assert people["publisher"].post("/audits", {"release": release.id}, files=audit).status_code == 403
    assert people["auditor"].get("/policy").status_code == 403
    assert service.ledger.balance(service.ledger.names()[0]).spends == 1


def test_a_key_that_may_not_even_read_is_told_what_it_may(service, app, tokens):
    owner = service.registry.authenticate(tokens["owner"])
    _, token = service.make_key(owner, NewKey(name="planner", role="publisher", scopes=["plan"]))
    person = Person(app)
    assert person.sign_in(token).headers["location"] == "/ui/tenant"
    assert "Your key" in person.get("/tenant").text
    assert "sfumato serve quotas " in person.get("/tenant").text
    answer = person.get("/")
    assert answer.status_code == 403
    assert "What your key allows" in answer.text
    _, token = service.make_key(owner, NewKey(name="reader", role="publisher", scopes=["read"]))
    service.open_budget(owner, "icu", epsilon=1, delta=0)
    person.sign_in(token)
    assert "a release</a>" not in person.get("/datasets/icu").text
    assert person.get("/datasets/icu/release").status_code == 403


# Tenants


def test_what_another_tenant_has_is_as_if_it_were_not_there(service, people, tokens, ward, release):
    stranger = people["stranger"]
    for pages in (
        ("/datasets/ward7", "/datasets/none"),
        ("/datasets/ward7/release", "/datasets/none/release"),
        *(
            (f"/releases/{release.id}{part}", f"/releases/{'0' * 24}{part}")
            for part in ("", "/file", "/report")
        ),
        (f"/releases/{release.id}/certificate", f"/releases/{'0' * 24}/certificate"),
    ):
        theirs, none = (stranger.get(page) for page in pages)
        assert (theirs.status_code, none.status_code) == (404, 404)
        swapped = theirs.text.replace(release.id, "0" * 24).replace("ward7", "none")
        assert swapped == none.text
    for page in ("/", "/releases", "/audits", "/access", "/tenant"):
        text = stranger.get(page).text
        assert "ward7" not in text
        assert release.id not in text
        assert "clinic" not in text
    owner = service.registry.authenticate(tokens["owner"])
    assert stranger.post(f"/tenant/keys/{owner.id}/revoke").status_code == 404
    files = {"file": ("x.npz", npz())}
    for path in ("plan", "release", "jobs"):
        assert stranger.post(f"/datasets/ward7/{path}", PLAN, files=files).status_code == 404
    assert people["owner"].get("/datasets/ward7").status_code == 200


def test_a_key_for_some_datasets_sees_only_those(service, app, tokens, ward, release):
    owner = service.registry.authenticate(tokens["owner"])
    service.open_budget(owner, "other", epsilon=1, delta=0)
    _, token = service.make_key(owner, NewKey(name="narrow", role="publisher", datasets=["other"]))
    person = Person(app)
    person.sign_in(token)
    for page in ("/", "/releases", "/audits"):
        assert "ward7" not in person.get(page).text
    assert person.get("/datasets/other").status_code == 200
    assert person.get("/datasets/ward7").status_code == 403
    assert person.get(f"/releases/{release.id}").status_code == 404


# Words


def test_refusals_are_in_the_words_of_the_api(people, tokens, ward):
    headers = {"Authorization": f"Bearer {tokens['auditor']}"}
    auditor = people["auditor"]
    for page, api in (("/datasets/none", "/v1/budgets/none"), ("/policy", "/v1/policy")):
        told = auditor.browser.get(api, headers=headers).json()
        answer = auditor.get(page)
        assert answer.status_code == told["status"]
        shown = re.sub(r"&#39;", "'", answer.text)
        assert told["detail"][1:] in shown
        assert "Back to the datasets" in shown
        fragment = auditor.get(page, **{"Sfumato-Fragment": "1"})
        assert fragment.text.startswith('<p class="banner alarm" role="alert">')
        assert told["detail"][1:] in re.sub(r"&#39;", "'", fragment.text)


def test_a_page_that_is_not_there_and_a_method_that_is_not_answered(people):
    assert "There is no such page." in people["owner"].get("/nothing").text
    assert people["owner"].get("/sign-out").status_code == 405
    assert people["owner"].get("/static/app.py").status_code == 404
    assert people["owner"].get("/static/..%2Fapp.py").status_code == 404


def test_what_nobody_has_thought_of_is_a_page_too(people, release):
    release.file.unlink()
    answer = people["owner"].get(f"/releases/{release.id}/file")
    assert answer.status_code == 500
    assert "An unexpected error occurred" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("path", ["/", "/releases/" + "0" * 24, "/datasets/none", "/nothing"])
def test_every_page_is_charged_once_also_one_that_says_what_is_wrong(service, people, monkeypatch, path):
    charged, charge = [], service.registry.charge

    def counted(tenant, **words):
        charged.append(tenant)
        return charge(tenant, **words)

    monkeypatch.setattr(service.registry, "charge", counted)
    assert people["owner"].get(path).status_code == (200 if path == "/" else 404)
    assert len(charged) == 1


def test_a_quota_that_is_used_up_is_told_on_a_page(service, people, tokens):
    from sfumato.serve.tenant_registry import Quotas

    owner = service.registry.authenticate(tokens["owner"])
    time.sleep(max(0.0, 62.0 - time.time() % 60.0) if time.time() % 60.0 > 55.0 else 0.0)
    service.registry.set_quotas(owner.tenant, Quotas(requests_per_minute=0))
    answer = people["owner"].get("/")
    assert answer.status_code == 429
    assert "equests a minute" in answer.text
    assert "Too many requests" in answer.text


def test_names_from_outside_stay_text(service, people, tokens, ward):
    owner = service.registry.authenticate(tokens["owner"])
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    service.make_key(owner, NewKey(name=hostile, role="auditor", reader=hostile))
    people["owner"].post("/policy", {"policy": f"</textarea>{hostile}", "do": "save", "after": "0"})
    people["owner"].post(
        "/policy",
        {"policy": '{"rules": [{"readers": ["<b>hi</b>"], "distrust": 0.5}]}', "do": "save", "after": "0"},
    )
    people["owner"].post("/datasets", {"dataset": hostile, "epsilon": hostile, "delta": "0"})
    people["owner"].get("/sign-in?to=" + hostile)
    people["owner"].get("/explorer?sample=" + hostile)
    people["owner"].get("/releases?after=" + hostile)
    pages = [*people["owner"].seen, people["owner"].get("/tenant"), people["owner"].get("/policy")]
    texts = [seen.text for seen in pages]
    assert any("&lt;script&gt;" in text for text in texts)
    assert any("&lt;/textarea&gt;" in text for text in texts)
    assert any("the reader is &lt;b&gt;hi&lt;/b&gt;" in text for text in texts)
    for text in texts:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "<b>hi" not in text
