"""A database that cannot be used: what callers, with and without a key, and the log are told of it."""

import json

import grpc
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("psycopg", reason="psycopg is not installed")
from dashboard_client import proof_in
from fastapi.testclient import TestClient
from grpc_service import listening
from sqlalchemy import create_engine

from sfumato.ledger import Ledger, LedgerUnavailable
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.stub import SfumatoStub
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

# Nobody listens on port 9, so that the driver says where it could not connect and as whom.
BROKEN = "postgresql+psycopg://dbuser:hunter2@127.0.0.1:9/hospital?connect_timeout=2&password=hunter3"
PRIVATE = ("dbuser", "hunter", "127.0.0.1", "hospital", "postgres", "service.db", "port 9")


@pytest.fixture
def broken(tmp_path):
    """A service whose databases have gone, and the token of an owner from before."""
    service = Service(Settings(tmp_path / "service"))
    tenant = service.registry.create_tenant("clinic")
    token = service.registry.create_key(tenant.id, name="owner", role="owner")[1]
    for storage in (service.registry.database, service.ledger._storage):
        storage.close()
        storage._engine = create_engine(BROKEN)
        storage._errors = (*storage._errors, storage._engine.dialect.loaded_dbapi.Error)
        storage._place = storage._engine.url.render_as_string(hide_password=True)
    yield service, token
    service.close()


def private_words(text):
    return [word for word in PRIVATE if word in text]


@pytest.mark.parametrize("given", [None, "sfu_0123456789abcdef_" + "0" * 64, "valid"])
def test_answers_and_logs_say_nothing_of_the_database(broken, capfd, given):
    service, token = broken
    key = token if given == "valid" else given
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with TestClient(make_app(service), raise_server_exceptions=False) as client:
        mark = proof_in(client.get("/ui/sign-in").text)
        answers = [
            client.get("/v1/me", headers=headers),
            client.post("/v1/budgets", headers=headers, json={"dataset": "d", "epsilon": 1, "delta": 1e-6}),
            client.get("/readyz"),
            client.post("/ui/sign-in", data={"proof": mark, "key": key or ""}),
            client.get("/s3/files/X.npz?X-Amz-Algorithm=x", headers=headers),
        ]
    if key is not None:
        assert [answer.status_code for answer in answers[:4]] == [503] * 4
        assert answers[0].json()["detail"].startswith("the registry of this service cannot be used now")
    for answer in answers:
        assert private_words(answer.text + json.dumps(dict(answer.headers))) == []
    with listening(service) as (server, _), grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        with pytest.raises(grpc.RpcError) as refused:
            SfumatoStub(channel).GetBudget(pb.DatasetRequest(dataset="d"), metadata=metadata)
    assert private_words(f"{refused.value.details()} {refused.value.trailing_metadata()}") == []
    if key is not None:
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    captured = capfd.readouterr()
    assert private_words(captured.err + captured.out) == []


def test_whoever_names_the_database_is_told_why_but_never_a_password():
    with pytest.raises(LedgerUnavailable, match="could not be used") as refused:
        Ledger(BROKEN)
    assert "hunter" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)
