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
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sfumato.mechanisms import MECHANISMS
from sfumato.serve import Service, Settings
from sfumato.serve.rest import make_app

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 12
OWN = {"authorization"}  # ours is sent in place of what is made up
KNOWN = ["plan", "protect", "jobs"]
REACHED = "reached"  # a dataset that exists
# What a mechanism might be given; a schema's made-up words would never get as far as one.
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(2**60, 10**400),
    st.floats(allow_nan=False, allow_infinity=False),
)
DESCRIBED = st.fixed_dictionaries(
    {
        "mechanism": st.sampled_from(sorted(MECHANISMS)),
        "parameters": st.dictionaries(
            st.sampled_from(["epsilon", "delta", "clip", "bounds", "unit", "distrust", "block", "shape"]),
            st.one_of(NUMBERS, st.lists(NUMBERS, max_size=3), st.text(max_size=5)),
        ),
    }
)


def npz():
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(0).normal(size=(20, 3)))
    return out.getvalue()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The document as schemathesis reads it, of an application that has one dataset, and a key."""
    service = Service(Settings(tmp_path_factory.mktemp("schema") / "service", body_bytes=1 << 20))
    tenant = service.registry.create_tenant("clinic")
    token = service.registry.create_key(tenant.id, name="owner", role="owner")[1]
    owner = service.registry.authenticate(token)
    service.open_budget(owner, REACHED, epsilon=1e6, delta=1e-3)
    app = make_app(service)
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app)
    yield schema, {"Authorization": f"Bearer {token}"}
    service.close()


def test_the_document_is_valid(asked):
    schema, _ = asked
    schema.validate()


def statuses_of(operation, headers, mode):
    """Try an operation with values that its document allows, or with others; every answer is checked.

    Three times in four a dataset is one that exists, and then a file that comes alone is one that could be
    released, and so are half of the records, so that what is asked for gets as far as a mechanism.
    """
    found, taken = Counter(), Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), described=DESCRIBED)
    def check(case, described):
        taken["cases"] += 1
        if "{dataset}" in operation.path and taken["cases"] % 4:
            case.path_parameters = {"dataset": REACHED}
            if case.media_type == "application/octet-stream":
                case.query = {"name": "x.npz", "asked": json.dumps(described)}
                case.body = npz()
            elif case.media_type == "application/json" and taken["cases"] % 4 > 1:
                case.query, case.body = {}, {"asked": described, "array": [[0.5, 1]] * 20}
        made_up = {name: value for name, value in (case.headers or {}).items() if name.lower() not in OWN}
        case.headers = made_up | headers
        answer = case.call_and_validate(checks=CHECKS)
        # One way of breaking the document is to send no header at all, ours neither: that ends at the door.
        if "Authorization" in answer.request.headers:
            found[answer.status_code] += 1

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
    for operation in KNOWN:
        assert tried[f"POST /v1/datasets/{{dataset}}/{operation}"].keys() - {404, 422}, tried
    # With a valid key nothing is refused at the door: what was tested is what lies behind it.
    refused = {label: statuses for label, statuses in tried.items() if {401, 429} & statuses.keys()}
    assert not refused


@pytest.mark.parametrize("media", ["application/octet-stream", "application/json"])
@pytest.mark.parametrize("operation", KNOWN)
def test_what_goes_well_is_what_the_document_says(asked, operation, media):
    """Fuzzed files are never released; a real one is, and records, and what is answered is as documented."""
    schema, headers = asked
    new = {"dataset": "ward", "epsilon": 8, "delta": 1e-5}
    made = schema["/v1/budgets"]["POST"].Case(body=new, headers=headers, media_type="application/json")
    made.call_and_validate(checks=CHECKS)
    described = {"parameters": {"epsilon": 0.1, "delta": 1e-9, "clip": 1.0}}
    sent = {"query": {"name": "x.npz", "asked": json.dumps(described)}, "body": npz()}
    if media == "application/json":
        sent = {"body": {"asked": described, "array": [[0.5, 1]] * 20}}
    case = schema[f"/v1/datasets/{{dataset}}/{operation}"]["POST"].Case(
        path_parameters={"dataset": "ward"}, headers=headers, media_type=media, **sent
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
