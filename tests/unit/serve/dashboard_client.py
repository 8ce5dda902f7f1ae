"""A service with two tenants, and people who are signed in to its pages."""

import io
import re

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient

from sfumato.release import ReleaseRequest
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings


def npz(seed=0, rows=30):
    out = io.BytesIO()
    np.savez(out, X=np.random.default_rng(seed).normal(size=(rows, 4)))
    return out.getvalue()


class Person:
    """Somebody with a browser: cookies are kept, redirects are not followed, forms bring their proof."""

    def __init__(self, app, *, scheme="http"):
        self.browser = TestClient(
            app, base_url=f"{scheme}://testserver", raise_server_exceptions=False, follow_redirects=False
        )
        self.seen = []

    def get(self, path, **headers):
        return self._kept(self.browser.get(f"/ui{path}", headers=headers))

    def post(self, path, data=None, *, files=None, proof=None, **headers):
        fields = {"proof": self.proof if proof is None else proof} | (data or {})
        return self._kept(self.browser.post(f"/ui{path}", data=fields, files=files, headers=headers))

    def sign_in(self, token, to=""):
        proof = proof_in(self.get("/sign-in").text)
        return self.post("/sign-in", {"key": token, "to": to}, proof=proof)

    @property
    def proof(self):
        return proof_in(self.get("/check").text)

    def _kept(self, answer):
        self.seen.append(answer)
        return answer


def proof_in(page):
    """The proof that the forms of a page bring."""
    (proof,) = set(re.findall(r'name="proof" value="([0-9a-f]{64})"', page))
    return proof


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service", body_bytes=1 << 20))
    yield made
    made.close()


@pytest.fixture
def app(service):
    return make_app(service)


@pytest.fixture
def tokens(service):
    """Keys of an owner, a publisher and an auditor of one tenant, and of the owner of another."""
    clinic, other = (service.registry.create_tenant(name) for name in ("clinic", "other"))
    made = {
        role: service.registry.create_key(clinic.id, name=f"the {role}", role=role)[1]
        for role in ("owner", "publisher", "auditor")
    }
    made["stranger"] = service.registry.create_key(other.id, name="owner", role="owner")[1]
    return made


@pytest.fixture
def people(app, tokens):
    """Each of them signed in; with a browser of their own."""
    found = {name: Person(app) for name in tokens}
    for name, person in found.items():
        assert person.sign_in(tokens[name]).status_code == 303
    return found


@pytest.fixture
def ward(service, tokens):
    """A dataset of the clinic with a budget of ε = 8."""
    owner = service.registry.authenticate(tokens["owner"])
    service.open_budget(owner, "ward7", epsilon=8, delta=1e-5)
    return "ward7"


@pytest.fixture
def release(service, tokens, ward, tmp_path):
    """A release of the ward."""
    file = tmp_path / "visits.npz"
    file.write_bytes(npz(rows=200))
    owner = service.registry.authenticate(tokens["owner"])
    return service.protect(
        owner, ReleaseRequest("gaussian", {"epsilon": 1.0, "delta": 1e-6, "clip": 1.0}), file, ward
    )
