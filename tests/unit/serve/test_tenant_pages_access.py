"""Buckets and readers on their page: what each role sees, what owners change, and what nobody else may."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import html
import json
import re

import pytest
from dashboard_client import Person, app, people, tokens, ward

from sfumato.serve.pages import tenant_pages
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.service import NewKey, Service
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import Quotas
from sfumato.serve.trust_policy import Policy

FILES = {"array": {"parameters": {"epsilon": [1, 8], "delta": 1e-6, "clip": 1.0}}}
RULES = [
    {"readers": ["clinic-b"], "networks": ["10.0.0.0/8"], "distrust": 0.0},
    {"authorisations": ["ethics-approved"], "jurisdictions": ["DE"], "distrust": 0.4},
    {"readers": ["old"], "min_age_days": 30, "distrust": 0.2},
]
ALL_FORMS = (
    ("/access/buckets", {}),
    ("/access/buckets/ward-files/remove", {}),
    ("/access/readers", {"reader": "mallory", "authorisations": "ethics-approved"}),
    ("/access/readers/forget", {"reader": "institute"}),
    ("/access/keys", {"holder": "mallory"}),
)


@pytest.fixture
def source(tmp_path):
    """A folder that is a bucket."""
    made = tmp_path / "files"
    made.mkdir()
    return f"file://{made}"


@pytest.fixture
def service(tmp_path, source):
    made = Service(Settings(tmp_path / "service", body_bytes=1 << 20, sources=(f"clinic={source}",)))
    yield made
    made.close()


@pytest.fixture
def buckets(service):
    return service.buckets


@pytest.fixture
def owner(service, tokens):
    return service.registry.authenticate(tokens["owner"])


@pytest.fixture
def bucket(source, ward):
    """The fields of the form that declares a bucket."""
    return {
        "name": "ward-files",
        "source": source,
        "dataset": ward,
        "tiers": "1, 0 0.5",
        "collected": "2024-01-31",
        "files": json.dumps(FILES),
        "public_names": "yes",
    }


@pytest.fixture
def declared(people, bucket, buckets, owner, service):
    """That bucket, a policy, and a reader of whom something is said."""
    assert people["owner"].post("/access/buckets", bucket).status_code == 303
    service.set_policy(owner, Policy.from_dict({"rules": RULES}), None)
    buckets.say(owner, "institute", ReaderFacts(authorisations=["ethics-approved"], jurisdiction="DE"))
    return "ward-files"


def text_of(answer):
    """What a page says, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def card_of(answer, name):
    """What the card of a bucket or reader says."""
    (found,) = [card for card in answer.text.split('<li class="card row">') if f"<h3><bdi>{name}<" in card]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found)).split())


def state(service, buckets, owner):
    """Everything that the forms of the page could change."""
    return (
        [bucket.to_dict() for bucket in buckets.buckets(owner)],
        buckets.readers(owner),
        service.keys_of(owner),
    )


# Buckets


def test_a_bucket_is_declared_shown_and_removed(people, bucket, buckets, owner):
    person = people["owner"]
    assert "There is no bucket yet." in text_of(person.get("/access"))
    assert f'value="{bucket["source"]}"' in person.get("/access").text, "the one source that is allowed"
    answer = person.post("/access/buckets", bucket)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/access")
    assert buckets.bucket(owner, "ward-files").to_dict()["tiers"] == [0.0, 0.5, 1.0]
    said = card_of(person.get("/access"), "ward-files")
    for words in (
        "dataset ward7",
        bucket["source"],
        "tiers τ = 0, 0.5, 1",
        "array ε 1 to 8, δ 10⁻⁶, clip 1 ; all tiers are paid at once",
        "31 January 2024",
        "this key gets the tier τ = 1 from this address",
    ):
        assert words in said, said
    assert person.post("/access/buckets", bucket).status_code == 303, "the same again changes nothing"
    assert len(buckets.buckets(owner)) == 1
    assert person.post("/access/buckets/ward-files/remove").status_code == 303
    assert buckets.buckets(owner) == []


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"name": "W"}, 400, "The bucket is malformed: name:"),
        ({"source": "file:///etc"}, 400, "This source is not allowed to this tenant"),
        ({"source": "http://localhost"}, 400, "A source is a URL of s3, gs, file"),
        ({"tiers": "low, high"}, 400, "Tiers are numbers from 0 to 1 with commas between them"),
        ({"tiers": ""}, 400, "The bucket is malformed: tiers:"),
        ({"tiers": "0, 2"}, 400, "Tiers are 1 to 16 numbers from 0"),
        ({"tiers": "0, nan"}, 400, "The bucket is malformed: tiers"),
        ({"tiers": "0, 0"}, 400, "Each tier has a level of its own"),
        ({"collected": "soon"}, 400, "The bucket is malformed: collected:"),
        ({"files": "{"}, 400, "How files are released is declared in JSON, which this is not."),
        ({"files": "[" * 100_000}, 400, "How files are released is declared in JSON, which this is not."),
        ({"files": '{"poem": {"parameters": {}}}'}, 400, "The bucket is malformed: files.poem"),
        ({"files": '{"array": {"parameters": {"clip": 1}}}'}, 400, "needs a range of ε"),
        ({"tiers": "0, 1"}, 409, "Is declared otherwise already"),
    ],
)
def test_a_bucket_that_cannot_be_declared_is_explained_and_changes_nothing(
    service, people, buckets, bucket, owner, declared, fields, status, sentence
):
    before = state(service, buckets, owner)
    given = bucket | {"name": "ward-files" if status == 409 else "another"} | fields
    answer = people["owner"].post("/access/buckets", given)
    assert answer.status_code == status
    assert sentence.lower() in text_of(answer).lower()
    assert f'value="{html.escape(given["name"])}"' in answer.text, "what was typed stays"
    assert state(service, buckets, owner) == before


def test_a_bucket_needs_a_source_that_is_allowed_and_a_budget(people, bucket):
    assert "No source is allowed to your tenant" in people["stranger"].get("/access").text
    assert "sfumato serve --source other=s3://bucket/folder" in people["stranger"].get("/access").text
    refused = people["owner"].post("/access/buckets", bucket | {"dataset": "none"})
    assert refused.status_code == 404
    assert "There is no budget of dataset 'none'" in text_of(refused)


# Readers


def test_a_reader_is_added_changed_and_forgotten(people, buckets, owner):
    person = people["owner"]
    fields = {"reader": "institute", "authorisations": "ethics-approved\r\n\r\n a, b ", "jurisdiction": "DE"}
    answer = person.post("/access/readers", fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/access#readers")
    assert buckets.readers(owner) == {
        "institute": ReaderFacts(authorisations=["ethics-approved", "a, b"], jurisdiction="DE")
    }
    assert "a, b, ethics-approved · under the law of DE" in card_of(person.get("/access"), "institute")
    form = person.get("/access?reader=institute").text
    assert ">a, b\nethics-approved</textarea>" in form
    assert person.post("/access/readers", fields | {"authorisations": "", "jurisdiction": ""}).is_redirect
    assert buckets.readers(owner) == {"institute": ReaderFacts()}
    assert person.post("/access/readers/forget", {"reader": "institute"}).is_redirect
    assert buckets.readers(owner) == {}


def test_a_reader_of_any_name_can_be_forgotten(people, buckets, owner):
    for name in (" spaced ", "a/b?c#d", '"><b>'):
        buckets.say(owner, name, ReaderFacts())
        page = people["owner"].get("/access").text
        assert f'name="reader" value="{html.escape(name).replace("&quot;", "&#34;")}"' in page
        assert "<b>" not in page
        assert people["owner"].post("/access/readers/forget", {"reader": name}).is_redirect
    assert buckets.readers(owner) == {}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"reader": ""}, "The name of a reader must be 1 to 200 printable characters."),
        ({"reader": "a\u0007b"}, "The name of a reader must be 1 to 200 printable characters."),
        ({"jurisdiction": "D" * 201}, "The reader is malformed: jurisdiction:"),
        ({"authorisations": "a" * 201}, "A reader has at most 100 authorisations"),
        ({"authorisations": "\n".join(map(str, range(101)))}, "The reader is malformed: authorisations:"),
    ],
)
def test_a_reader_that_cannot_be_is_explained_and_changes_nothing(
    service, people, buckets, owner, declared, fields, sentence
):
    before = state(service, buckets, owner)
    answer = people["owner"].post("/access/readers", {"reader": "institute"} | fields)
    assert answer.status_code == 400
    assert sentence in text_of(answer)
    assert state(service, buckets, owner) == before


def test_each_reader_is_shown_with_the_tier_that_the_proxy_gives_it(
    service, app, people, buckets, owner, declared
):
    said = {
        "institute": "ward-files the tier τ = 0.5, the next to τ = 0.4",
        "clinic-b": "ward-files the tier τ = 1",
        "old": "ward-files the tier τ = 0.5, the next to τ = 0.2",
        "nobody": "ward-files the tier τ = 1",
    }
    tiers = {"institute": 0.5, "clinic-b": 1.0, "old": 0.5, "nobody": 1.0}
    for name, words in said.items():
        _, token = service.make_key(owner, NewKey(name=name, role="auditor", scopes=["read"], reader=name))
        card = card_of(people["owner"].get("/access"), name)
        assert words in card, card
        asked = Person(app).browser.get(
            "/v1/proxies/ward-files/tier", headers={"Authorization": f"Bearer {token}"}
        )
        assert asked.json()["tier"] == tiers[name]


def test_of_many_readers_the_first_are_shown(monkeypatch, people, declared):
    monkeypatch.setattr(tenant_pages, "_MOST_READERS", 2)
    page = people["owner"].get("/access")
    assert page.text.count(">Change</a>") == 2
    assert "Not shown here: 1 more." in page.text


def test_rules_by_address_are_asked_for_an_address(people, buckets, owner, declared):
    page = people["owner"].get("/access")
    assert "from an address that the rules name, a reader may be trusted more, never less" in text_of(page)
    inside = people["owner"].get("/access?address=10.1.2.3")
    assert "ward-files the tier τ = 0" in card_of(inside, "clinic-b")
    assert "ward-files the tier τ = 1" in card_of(
        people["owner"].get("/access?address=192.0.2.1"), "clinic-b"
    )
    wrong = people["owner"].get("/access?address=<b>here")
    assert "This is not a network address" in wrong.text
    assert "<b>here" not in wrong.text


def test_a_reader_without_a_tier_gets_nothing_and_the_page_says_so(people, bucket):
    assert people["owner"].post("/access/buckets", bucket | {"tiers": "0.1"}).status_code == 303
    people["owner"].post("/access/readers", {"reader": "institute"})
    page = people["owner"].get("/access")
    assert "no tier: τ = 1, and no tier is for so little trust" in card_of(page, "institute")
    assert "gets nothing from this address" in card_of(page, "ward-files")


# Access keys


def test_an_access_key_is_made_shown_and_revoked(service, people, buckets, owner, declared):
    person = people["owner"]
    fields = {"holder": "institute", "datasets": "ward7", "expires": "2099-12-31"}
    answer = person.post("/access/keys", fields)
    assert answer.status_code == 201
    (key,) = [one for one in service.keys_of(owner) if one.reader == "institute"]
    assert (key.role, key.scopes, key.datasets) == ("auditor", {"tier"}, {"ward7"})
    secret = buckets.secret_of(key.id)
    assert f"export AWS_ACCESS_KEY_ID={key.id}\nexport AWS_SECRET_ACCESS_KEY={secret}<" in answer.text
    assert "sfu_" not in answer.text
    page = person.get("/access")
    assert secret not in page.text
    assert f"{key.id} · key institute · only ward7 · expires 31 December 2099" in card_of(page, "institute")
    assert secret in person.post(f"/access/keys/{key.id}/secret").text
    assert person.post(f"/access/keys/{key.id}/revoke").headers["location"] == "/ui/access#readers"
    assert key.id not in person.get("/access").text
    assert service.keys_of(owner)[-1].revoked is not None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"holder": ""}, "An access key is a reader's; name the reader."),
        ({"datasets": "a/b"}, "The name of a dataset must be"),
        ({"expires": "tomorrow"}, "at the end of a day"),
        ({"expires": "2020-01-01"}, "in the future"),
    ],
)
def test_an_access_key_that_cannot_be_made_is_explained_and_none_is_made(
    service, people, buckets, owner, declared, fields, sentence
):
    before = state(service, buckets, owner)
    answer = people["owner"].post("/access/keys", {"holder": "institute"} | fields)
    assert answer.status_code == 400
    assert sentence in text_of(answer)
    assert "AWS_SECRET" not in answer.text
    assert state(service, buckets, owner) == before


# Roles and tenants


def test_others_than_owners_see_buckets_without_their_source_and_no_forms(
    service, people, buckets, bucket, owner, declared
):
    before = state(service, buckets, owner)
    assert ">Buckets</a>" in people["owner"].get("/").text
    for role in ("publisher", "auditor"):
        person = people[role]
        page = person.get("/access").text
        assert "ward-files" in page
        assert bucket["source"] not in page
        assert "institute" not in page
        assert "clinic-b" not in page
        assert page.count("<form") == 1, "the one that signs out"
        assert ">Buckets</a>" not in person.get("/").text
        assert '<a class="button" href="/ui/access">Buckets</a>' in person.get("/tenant").text
        for path, fields in ALL_FORMS:
            status = 404 if path.endswith("/remove") else 403
            answer = person.post(path, bucket if path == "/access/buckets" else fields)
            assert answer.status_code == status, (path, role)
        assert person.post(f"/access/keys/{owner.id}/secret").status_code == 403
        assert person.post(f"/access/keys/{owner.id}/revoke").status_code == 403
    assert state(service, buckets, owner) == before


def test_a_key_that_lacks_an_operation_is_not_offered_it(service, app, buckets, bucket, owner, declared):
    offers = {
        "Declare a bucket": "read budget",
        "Add or change a reader": "policy",
        "Make an access key": "policy keys",
    }
    for scopes in (["read"], ["budget"], ["read", "budget"], ["policy"], ["keys"], ["policy", "keys"]):
        _, token = service.make_key(owner, NewKey(name="narrow", role="owner", scopes=scopes))
        person = Person(app)
        person.sign_in(token)
        page = person.get("/access").text
        for words, needed in offers.items():
            assert (words in page) == (set(needed.split()) <= set(scopes)), (words, scopes)
        assert ("ward-files" in page) == ("read" in scopes)


def test_a_key_for_other_datasets_does_not_see_the_bucket(service, app, owner, declared):
    service.open_budget(owner, "other", epsilon=1, delta=0)
    _, token = service.make_key(owner, NewKey(name="narrow", role="owner", datasets=["other"]))
    person = Person(app)
    person.sign_in(token)
    page = person.get("/access").text
    assert "ward-files" not in page
    assert "ward7" not in page
    assert '<option value="other">' in page
    assert person.post("/access/buckets/ward-files/remove").status_code == 404


def test_another_tenant_sees_nothing_and_changes_nothing(service, people, buckets, bucket, owner, declared):
    key, _ = service.make_key(owner, NewKey(name="clinic-b", role="auditor", reader="clinic-b"))
    before = state(service, buckets, owner)
    stranger = people["stranger"]
    page = stranger.get("/access").text
    for word in ("ward", "institute", "clinic", key.id):
        assert word not in page
    assert stranger.post("/access/buckets/ward-files/remove").status_code == 404
    assert stranger.post(f"/access/keys/{key.id}/secret").status_code == 404
    assert stranger.post(f"/access/keys/{key.id}/revoke").status_code == 404
    assert stranger.post("/access/readers/forget", {"reader": "institute"}).status_code == 303
    assert stranger.post("/access/buckets", bucket).status_code == 400
    assert state(service, buckets, owner) == before
    assert "AWS_SECRET" not in "".join(seen.text for seen in stranger.seen)


def test_no_form_of_the_page_does_anything_without_its_proof(
    service, people, buckets, bucket, owner, declared
):
    before = state(service, buckets, owner)
    paths = [
        *ALL_FORMS,
        (f"/access/keys/{owner.id}/secret", {}),
        (f"/access/keys/{owner.id}/revoke", {}),
    ]
    for path, fields in paths:
        for proof in ("", "0" * 64, people["stranger"].proof):
            answer = people["owner"].post(path, bucket | fields, proof=proof)
            assert answer.status_code == 403, path
        assert people["owner"].post(path, fields, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert state(service, buckets, owner) == before
    assert "AWS_SECRET" not in "".join(seen.text for seen in people["owner"].seen)


def test_the_page_counts_to_the_quota(service, people, owner):
    service.registry.set_quotas(owner.tenant, Quotas(requests_per_minute=0))
    assert people["owner"].get("/access").status_code == 429


def test_names_from_outside_stay_text(service, people, owner, buckets):
    hostile = "<script>alert(1)</script>\"'>"
    buckets.say(owner, hostile, ReaderFacts(authorisations=[hostile], jurisdiction=hostile))
    service.make_key(owner, NewKey(name=hostile, role="auditor", reader=hostile))
    people["owner"].get("/access?reader=" + hostile)
    people["owner"].post("/access/buckets", {"name": hostile, "files": f"</textarea>{hostile}"})
    people["owner"].post("/access/keys", {"holder": hostile, "datasets": hostile})
    assert "&lt;script&gt;" in people["owner"].get("/access").text
    for seen in people["owner"].seen:
        assert "<script>alert" not in seen.text


def test_the_tenant_page_says_what_only_the_command_line_does(people):
    said = text_of(people["auditor"].get("/tenant"))
    assert "sfumato serve quotas clinic , and makes and closes tenants by sfumato serve tenant" in said
    assert (
        '<a class="button" href="/ui/access">Buckets and readers</a>' in people["owner"].get("/tenant").text
    )
