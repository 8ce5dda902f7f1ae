"""Records as JSON: released like a file, given back as JSON, refused in a sentence where they are none."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import io
import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from job_service import callers, ended, owner, running, service

from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.tenant_registry import Quotas

ASKED = {"mechanism": "gaussian", "parameters": {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}}
TABLE = {
    "asked": {
        "parameters": {"epsilon": 1.0, "delta": 1e-6},
        "columns": {
            "age": {"kind": "numeric", "bounds": [0, 120]},
            "sex": {"kind": "categorical", "categories": ["f", "m"]},
            "ill": {"kind": "categorical", "categories": [True, False]},
            "ward": {"kind": "categorical", "categories": [1, 2, 3]},
        },
    },
    "table": {"age": [40, 51.5], "sex": ["f", "m"], "ill": [True, False], "ward": [3, 1]},
}


@pytest.fixture
def client(service, owner):
    _, token = service.registry.create_key(owner.tenant, name="k", role="owner")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with TestClient(make_app(service), raise_server_exceptions=False, headers=headers) as made:
        yield made


def sent(client, body, operation="protect", **headers):
    content = body if isinstance(body, str) else json.dumps(body)
    return client.post(f"/v1/datasets/ward/{operation}", content=content, headers=headers)


def spends(client):
    return client.get("/v1/budgets/ward").json()["spends"]


@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3)])
def test_an_array_is_planned_paid_and_given_back(client, shape):
    values = np.random.default_rng(0).normal(size=shape)
    body = {"asked": ASKED, "array": values.tolist()}
    planned = sent(client, body, "plan").json()
    assert (planned["rows"], spends(client)) == (shape[0], 0)
    answer = sent(client, body)
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert told.keys() == {"release", "array"}
    assert spends(client) == 1
    id_ = told["release"]["id"]
    assert answer.headers["sfumato-release"] == id_
    assert client.get(f"/v1/releases/{id_}").json() == told["release"]
    found = np.array(told["array"])
    assert found.shape == shape
    assert np.abs(found - values).max() > 0.1, "noise of deviation 8.4 is in all of them"


def test_what_comes_back_is_what_the_certificate_is_about(client):
    told = sent(client, {"asked": ASKED, "array": [[0.5, 0.25]] * 3}).json()
    content = client.get(f"/v1/releases/{told['release']['id']}/content").content
    assert np.load(io.BytesIO(content))["X"].tolist() == told["array"]


def test_a_table_keeps_its_columns_and_their_kinds(client):
    told = sent(client, TABLE).json()
    assert told.keys() == {"release", "table"}
    table = told["table"]
    assert list(table) == list(TABLE["table"])
    assert {len(column) for column in table.values()} == {2}
    assert {type(value) for value in table["age"]} == {float}
    assert set(table["sex"]) <= {"f", "m"}
    assert set(table["ill"]) <= {True, False}
    assert set(table["ward"]) <= {1, 2, 3}


def test_a_repeated_request_gives_the_same_and_pays_once(client):
    body = {"asked": ASKED, "array": [[1, 2]]}
    first, second = (sent(client, body, **{"Idempotency-Key": "a"}) for _ in range(2))
    assert first.json() == second.json()
    assert spends(client) == 1
    other = sent(client, body | {"array": [[1, 2.5]]}, **{"Idempotency-Key": "a"})
    assert other.json()["type"] == "conflict"
    assert spends(client) == 1


def test_a_job_takes_them_too(client, service, owner):
    job = service.job(owner, sent(client, {"asked": ASKED, "array": [[1, 2]]}, "jobs").json()["id"])
    with running(service):
        assert ended(service, owner, job).state == "done"
    assert spends(client) == 1


NUMBERS = "the array must be a list for each record, all of as many numbers"
COLUMN = "column 1 of the table must be numbers, or words, or true and false."


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "the body has records either as an array or as a table."),
        ({"array": [1], "table": {"a": [1]}}, "the body has records either as an array or as a table."),
        ({"array": []}, NUMBERS),
        ({"array": [[], []]}, NUMBERS),
        ({"array": [[1], [1, 2]]}, NUMBERS),
        ({"array": [[1], 2]}, NUMBERS),
        ({"array": [1, "2"]}, NUMBERS),
        ({"array": [1, True]}, NUMBERS),
        ({"array": [None]}, NUMBERS),
        ('{"array": ' + "[" * 9 + "1" + "]" * 9 + "}", NUMBERS),
        ({"array": [1, 2]}, NUMBERS),
        ({"array": [[10**400]]}, "a number of the array is not finite"),
        ('{"array": [[NaN]]}', "a number of the array is not finite"),
        ('{"array": [[1e999]]}', "a number of the array is not finite"),
        ({"table": {}}, "the table must have columns, all of as many values."),
        ({"table": {"a": [1], "b": [1, 2]}}, "the table must have columns, all of as many values."),
        ({"table": {"a": []}}, COLUMN),
        ({"table": {"a": [1, "secret"]}}, COLUMN),
        ({"table": {"a": [1, None]}}, COLUMN),
        ({"table": {"a": [[1]]}}, COLUMN),
        ({"table": {"a": [10**30]}}, "the table has a number that is too large"),
        ('{"table": {"a": [1], "a": [2]}}', "the name 'a' stands twice in one object"),
        ('{"array": [[' + "1" * 5000 + "]]}", "the body is malformed: : Invalid JSON"),
        ({"table": {str(at): [1] for at in range(1001)}}, "the table has more than 1,000 columns"),
        (
            {"array": [[1]], "asked": {"columns": {"a" * 100_001: 1}}},
            "asked has more than 100,000 characters",
        ),
        (
            {"array": [[1]], "asked": {"mechanism": "x" * 101}},
            "the body is malformed: asked.mechanism: String",
        ),
        ({"array": [1], "file": "secret"}, "the body is malformed: file: Extra inputs are not permitted."),
        ({"array": [1], "asked": {"file": "secret"}}, "the body is malformed: asked.file: Extra inputs"),
        ("secret", "the body is malformed: : Invalid JSON"),
        ("[" * 5000, "the body is malformed: : Invalid JSON"),
        ('{"table": {"a": ["\\ud800"]}}', "the body is malformed: : Invalid JSON"),
        (TABLE | {"table": TABLE["table"] | {"sex": ["f", "secret"]}}, "rows.parquet: "),
    ],
)
def test_what_is_no_record_is_refused_and_spends_nothing(client, service, body, sentence):
    answer = sent(client, body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["type"]) == (400, "bad-input")
    assert answer.json()["detail"].startswith(sentence)
    assert "secret" not in answer.text
    assert spends(client) == 0
    assert list(service.settings.work.rglob("*.*")) == []


@pytest.mark.parametrize(
    "body",
    [
        {"asked": ASKED, "array": [[0.125] * 8] * 100_000},
        {"asked": ASKED, "array": [[1] * 100] * 2_001},
        {"asked": ASKED, "table": {"a": [1] * 200_001}},
        {
            "asked": {"columns": {"a": {"kind": "categorical", "categories": ["a", "b" * 4000]}}},
            "table": {"a": ["a"] * 5000},
        },
    ],
    ids=["bytes", "numbers", "cells", "words that could come back"],
)
def test_many_records_are_a_file(client, body):
    answer = sent(client, body)
    assert (answer.status_code, answer.json()["type"]) == (413, "too-large")
    assert "send a file" in answer.json()["detail"]
    assert spends(client) == 0


def test_an_array_that_grew_is_left_to_its_file(client):
    """Each of 100,000 numbers becomes 32 bits: more than is answered as JSON, and paid for all the same."""
    asked = {"mechanism": "binary-encoding", "parameters": {"epsilon": 1.0, "bits": 32, "bounds": [0, 1]}}
    told = sent(client, {"asked": asked, "array": [[1]] * 100_000}).json()
    assert told.keys() == {"release"}
    content = client.get(f"/v1/releases/{told['release']['id']}/content").content
    assert np.load(io.BytesIO(content))["X"].size == 3_200_000
    assert spends(client) == 1


def test_all_their_bytes_count_in_the_quota(client, service, owner):
    service.registry.set_quotas(owner.tenant, Quotas(None, 100_000, None))
    body = json.dumps({"asked": ASKED, "array": [[1] * 100] * 200})
    answers = [sent(client, body, "plan").status_code for _ in range(3)]
    assert 50_000 < len(body) < 100_000
    assert answers == [200, 429, 429]
    assert sent(client, "no JSON, " * 10_000).status_code == 429


def test_where_nothing_is_released_and_beside_a_query_they_are_not_taken(client):
    body = json.dumps({"asked": ASKED, "array": [[1, 2]]})
    for path in ("/v1/datasets/ward/protect?asked={}", "/v1/verify"):
        assert client.post(path, content=body).json()["type"] == "bad-input"
    assert spends(client) == 0
