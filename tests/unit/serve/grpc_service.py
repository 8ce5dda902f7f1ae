"""A gRPC server on a free port of the loopback, tenants with keys, and a client that streams files."""

import asyncio
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import numpy as np
import pytest

from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.grpc_server import Limits, make_server
from sfumato.serve.grpc.stub import SfumatoStub
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

Code = grpc.StatusCode
PARAMETERS = {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}
LARGEST = 1 << 20


def npz(seed=0, rows=30):
    values = np.random.default_rng(seed).normal(size=(rows, 4))
    out = io.BytesIO()
    np.savez(out, X=values)
    return out.getvalue()


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service", body_bytes=LARGEST))
    yield made
    made.close()


@contextmanager
def listening(service, *, address="127.0.0.1:0", shared=False, certificate=None, key=None, **limits):
    """A server on a free port of the loopback, in a loop of its own; and how to run something there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def started():
        server = make_server(
            service, address, shared=shared, certificate=certificate, key=key, limits=Limits(**limits)
        )
        await server.start()
        return server

    try:
        server = there(started())
        yield server, there
        there(server.stop(1.0))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def channel(service):
    with listening(service) as (server, _), grpc.insecure_channel(f"127.0.0.1:{server.port}") as made:
        yield made


@pytest.fixture
def stub(channel):
    return SfumatoStub(channel)


@pytest.fixture
def keys(service):
    """The metadata of an owner, a publisher and an auditor of one tenant, and of the owner of another."""
    clinic, other = (service.registry.create_tenant(name) for name in ("clinic", "other"))
    made = {
        role: service.registry.create_key(clinic.id, name=role, role=role)[1]
        for role in ("owner", "publisher", "auditor")
    }
    made["stranger"] = service.registry.create_key(other.id, name="owner", role="owner")[1]
    return {name: (("authorization", f"Bearer {token}"),) for name, token in made.items()}


@pytest.fixture
def ward(stub, keys):
    """A budget of ε = 8 of the clinic."""
    return stub.OpenBudget(pb.NewBudget(dataset="ward", epsilon=8, delta=1e-5), metadata=keys["owner"])


def parameter(value):
    kinds = {bool: "flag", int: "whole", float: "number", str: "word"}
    if isinstance(value, list):
        return pb.Parameter(numbers=pb.Numbers(numbers=value))
    return pb.Parameter(**{kinds[type(value)]: value})


def parts(body=None, *, dataset="ward", name="x.npz", parameters=None, chunk=1000, **description):
    """A file as a stream: what is asked, then chunks."""
    given = PARAMETERS if parameters is None else parameters
    asked = pb.Description(
        parameters={name: parameter(value) for name, value in given.items()},
        **({"mechanism": "gaussian"} | description),
    )
    yield pb.FilePart(file=pb.AskedFile(dataset=dataset, name=name, asked=asked))
    body = npz() if body is None else body
    for at in range(0, len(body), chunk):
        yield pb.FilePart(chunk=body[at : at + chunk])


def whole(answer):
    """What was released, and the file."""
    first, *others = answer
    return first.release, b"".join(part.chunk for part in others)


def protected(stub, metadata, body=None, **words):
    return whole(stub.Protect(parts(body, **words), metadata=metadata))


def budget(stub, keys, dataset="ward"):
    return stub.GetBudget(pb.DatasetRequest(dataset=dataset), metadata=keys["owner"])


def refused(code, word, call, *arguments, **words):
    """Refused with this code and word; returns the sentence."""

    def asked():
        found = call(*arguments, **words)
        return list(found) if isinstance(found, Iterator) else found

    with pytest.raises(grpc.RpcError) as raised:
        asked()
    error = raised.value
    assert error.code() == code, error
    assert dict(error.trailing_metadata())["sfumato-refusal"] == word
    assert error.details().endswith((".", "?", "…"))
    return error.details()


def code_of(call, *arguments, **words):
    """The code that a call ends with."""
    try:
        found = call(*arguments, **words)
        if isinstance(found, Iterator):
            list(found)
    except grpc.RpcError as error:
        return error.code()
    return Code.OK
