"""The dashboard asked by strangers and by nobody: every page and form that there is, found and not listed."""

import re
import time
from http.cookies import SimpleCookie
from itertools import product
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from serve_process import serving
from test_serve_tenants import PLANTED, multipart, npz

from sfumato.serve import Service, Settings
from sfumato.serve.pages.pages_app import make_dashboard

# Pages for whoever has no key: what they are made of, and the form for signing in.
OPEN = {"/static/{file}", "/sign-in"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
# Forms with files.
UPLOADS = {f"/datasets/{{dataset}}/{way}" for way in ("plan", "release", "jobs")} | {"/audits", "/check"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("pages")) as made:
        yield made


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    service = Service(Settings(tmp_path_factory.mktemp("routes") / "service"))
    found = [(method, route.path) for route in make_dashboard(service).routes for method in route.methods]
    service.close()
    return [one for one in found if one[0] != "HEAD"]


@pytest.fixture(scope="module")
def named(served):
    """What the clinic has, by what paths call it."""
    served.open_budget(f"{PLANTED}-ward")
    release = served.protect(npz(), dataset=f"{PLANTED}-ward").headers["sfumato-release"]
    query = {"name": "x.npz", "asked": '{"parameters": {"epsilon": 0.1, "clip": 1}}'}
    job = served.ask("POST", f"/v1/datasets/{PLANTED}-ward/jobs", npz(), query=query).json["id"]
    key = served.ask("POST", "/v1/keys", {"name": PLANTED, "role": "auditor"}).json["id"]
    sample = {"sample": "x", "epsilon": "1", "distrust": "0.5", "side": "after", "file": "x"}
    bucket = {"bucket": "files"}
    return {"dataset": f"{PLANTED}-ward", "release": release, "job": job, "key": key} | bucket | sample


@pytest.fixture(scope="module")
def stranger(served):
    """The cookies of the owner of another tenant, who is signed in."""
    page = served.ask("GET", "/ui/sign-in", tenant=None)
    proof = re.search(r'name="proof" value="([0-9a-f]+)"', page.body.decode())[1]
    given = urlencode({"proof": proof, "key": served.tokens["other"], "to": ""}).encode()
    cookies = {"Cookie": _cookies(page)}
    answer = served.ask("POST", "/ui/sign-in", given, tenant=None, headers=FORM | cookies)
    assert answer.status == 303, answer.body
    return {"Cookie": _cookies(answer)}


def sent(served, path, fields, cookies):
    """A form of somebody who is signed in, filled in and with the proof of their own session."""
    page = served.ask("GET", "/ui/check", tenant=None, headers=cookies).body.decode()
    (proof,) = set(re.findall(r'name="proof" value="([0-9a-f]{64})"', page))
    if path not in UPLOADS:
        return urlencode(fields | {"proof": proof}).encode(), FORM | cookies
    body, kind = multipart(**dict.fromkeys(("file", "original", "released"), ("x.npz", npz())))
    boundary = kind.partition("boundary=")[2]
    words = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (fields | {"proof": proof}).items()
    )
    return words.encode() + body, {"Content-Type": kind} | cookies


def _cookies(answer):
    found = SimpleCookie(answer.headers["set-cookie"])
    for morsel in found.values():
        assert morsel["httponly"]
        assert morsel["samesite"] == "strict"
    return "; ".join(f"{name}={morsel.value}" for name, morsel in found.items())


def test_no_page_is_for_nobody(served, named, routes):
    for method, path in routes:
        if path in OPEN:
            continue
        for cookie in (
            "",
            "sfumato_session=x",
            f"sfumato_session={'t' + '0' * 16}.{'0' * 16}.99999999999.{'0' * 32}.{'0' * 64}",
        ):
            body = b"proof=x" if method == "POST" else None
            headers = FORM | ({"Cookie": cookie} if cookie else {})
            answer = served.ask(method, "/ui" + path.format(**named), body, tenant=None, headers=headers)
            assert answer.status in (303, 401, 403), (method, path, answer.status)
            assert PLANTED.encode() not in answer.body.replace(named["dataset"].encode(), b"")


def test_a_stranger_sees_no_page_of_the_clinic_and_sends_no_form(served, named, routes, stranger):
    before = [served.ask("GET", f"/v1/{path}").json for path in ("budgets", "releases", "keys", "policy")]
    filled_in = {"name": "x", "role": "auditor", "once": "0" * 32, "release": named["release"]}
    filled_in |= {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6", "clip": "1"}
    for method, path in routes:
        if path in OPEN or path == "/sign-out":
            continue
        body, headers = sent(served, path, filled_in, stranger) if method == "POST" else (None, stranger)
        answer = served.ask(method, "/ui" + path.format(**named), body, tenant=None, headers=headers)
        named_here = any(f"{{{name}}}" in path for name in ("dataset", "release", "job", "key", "bucket"))
        # A release that is audited is named in the form; what else names nothing is the stranger's own.
        allowed = (404,) if named_here or (method, path) == ("POST", "/audits") else (200, 201, 303, 400, 404)
        assert answer.status in allowed, (method, path, answer.status, answer.body[:300])
        shown = answer.body.decode("utf-8", "replace").replace(named["dataset"], "")
        assert PLANTED not in shown, (method, path)
        assert "Content-Security-Policy".lower() in answer.headers
    after = [served.ask("GET", f"/v1/{path}").json for path in ("budgets", "releases", "keys", "policy")]
    assert after == before


def test_forms_that_are_filled_in_like_this_are_followed_where_they_are_ones_own(served, named, stranger):
    """Else strangers would be refused for another reason than that they are strangers."""
    served.open_budget("own", tenant="other")
    for path in ("/datasets/{dataset}/plan", "/datasets/{dataset}/release", "/datasets/{dataset}/jobs"):
        fields = {"once": "1" * 32 if path.endswith("jobs") else "0" * 32}
        fields |= {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6", "clip": "1"}
        body, headers = sent(served, path, fields, stranger)
        answer = served.ask("POST", "/ui" + path.format(dataset="own"), body, tenant=None, headers=headers)
        assert answer.status in (200, 303), (path, answer.body[:300])


def test_samples_of_the_explorer_are_those_that_there_are(served, stranger):
    page = served.ask("GET", "/ui/explorer", tenant=None, headers=stranger).body.decode()
    shown = sorted(set(re.findall(r"/explorer/[^\"' ]+\.png", page)))
    assert shown
    for path in shown:
        found = served.ask("GET", f"/ui{path}", tenant=None, headers=stranger)
        assert (found.status, found.body[:4]) == (200, b"\x89PNG"), path
    sample = shown[0].split("/")[2]
    values = ["1", "0", "-1", "1e308", "1e-308", "nan", "inf", "..", "%00", "9" * 400, "x", ""]
    for epsilon, distrust in product(values, values[:6]):
        path = f"/ui/explorer/{sample}/{epsilon}/{distrust}/after.png"
        start = time.monotonic()
        answer = served.ask("GET", path, tenant=None, headers=stranger)
        assert answer.status in (200, 303, 400, 404, 422), (path, answer.status)
        assert time.monotonic() - start < 10.0
