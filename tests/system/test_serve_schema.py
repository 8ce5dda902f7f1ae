"""Every operation of the OpenAPI document under schemathesis: what it answers is what the document says."""

import io
import json
from collections import Counter
from contextlib import suppress
from unittest import SkipTest

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sfumato.serve.rest.app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 12
OWN = {"authorization"}  # ours is sent in place of what is made up


def npz():
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(20, 3)))
    return out.getvalue()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The document as schemathesis reads it, of an application that has one of most things, and a key."""
    service = Service(Settings(tmp_path_factory.mktemp("schema") / "service", body_bytes=1 << 20))
    tenant = service.registry.create_tenant("clinic")
    token = service.registry.create_key(tenant.id, name="owner", role="owner")[1]
    app = make_app(service)
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app)
    yield schema, {"Authorization": f"Bearer {token}"}
    service.close()


def test_the_document_is_valid(asked):
    schema, _ = asked
    schema.validate()


def statuses_of(operation, headers, mode):
    """Try an operation with values that its document allows, or with others; every answer is checked."""
    found = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        made_up = {name: value for name, value in (case.headers or {}).items() if name.lower() not in OWN}
        case.headers = made_up | headers
        found[case.call_and_validate(checks=CHECKS).status_code] += 1

    check()
    return found


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_operation_breaks_or_answers_what_it_does_not_say(asked, mode):
    schema, headers = asked
    tried = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        with suppress(Unsatisfiable, SkipTest):  # nothing that an operation without parameters could refuse
            tried[operation.label] = statuses_of(operation, headers, mode)
    assert len(tried) > 10
    assert all(statuses.total() >= 1 for statuses in tried.values()), tried
    # With a valid key nothing is refused at the door: what was tested is what lies behind it.
    assert not any({401, 429} & statuses.keys() for statuses in tried.values()), tried


KNOWN = ["plan", "protect", "jobs"]


@pytest.mark.parametrize("operation", KNOWN)
def test_what_goes_well_is_what_the_document_says(asked, operation):
    """Fuzzed files are never released; a real one is, and its answer too is as the document says."""
    schema, headers = asked
    new = {"dataset": "ward", "epsilon": 8, "delta": 1e-5}
    made = schema["/v1/budgets"]["POST"].Case(body=new, headers=headers, media_type="application/json")
    made.call_and_validate(checks=CHECKS)
    described = {"parameters": {"epsilon": 0.1, "delta": 1e-9, "clip": 1.0}}
    case = schema[f"/v1/datasets/{{dataset}}/{operation}"]["POST"].Case(
        path_parameters={"dataset": "ward"},
        query={"name": "x.npz", "asked": json.dumps(described)},
        headers=headers,
        body=npz(),
        media_type="application/octet-stream",
    )
    answer = case.call_and_validate(checks=CHECKS)
    assert answer.status_code in (200, 202)
    if operation == "protect":
        release = {"release": answer.headers["sfumato-release"][0]}
        for part in ("", "/content", "/certificate", "/report"):
            found = schema[f"/v1/releases/{{release}}{part}"]["GET"].Case(
                path_parameters=release, headers=headers
            )
            assert found.call_and_validate(checks=CHECKS).status_code == 200
    if operation == "jobs":
        job = {"job": answer.json()["id"]}
        for method in ("GET", "DELETE"):
            found = schema["/v1/jobs/{job}"][method].Case(path_parameters=job, headers=headers)
            assert found.call_and_validate(checks=CHECKS).status_code == 200
    for path in ("/v1/budgets", "/v1/releases", "/v1/jobs", "/v1/keys", "/v1/me"):
        assert schema[path]["GET"].Case(headers=headers).call_and_validate(checks=CHECKS).status_code == 200
