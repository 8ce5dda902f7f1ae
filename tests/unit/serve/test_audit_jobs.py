"""Audits as jobs: what the command line would find, kept for the tenant; no file is read by a name."""

# ruff: noqa: F401, F811 (fixtures are imported, and then named by the tests that take them)

import os
import shutil
import stat

import numpy as np
import pytest
from job_service import GAUSSIAN, callers, ended, kinds, owner, running, service, upload
from sklearn.datasets import load_iris

from sfumato.errors import BadInput
from sfumato.release import Compared, audit_files
from sfumato.reports import certificate_file
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.refusals import Forbidden, NotFound


def audit(service, caller, original, released, *, request=None, **files):
    """Ask for an audit of the dataset ward, without further options."""
    sent = {"original": original, "released": released} | files
    return service.submit_audit(caller, AuditDescription(), sent, "ward", request=request)


@pytest.fixture
def iris(service, owner, upload):
    """The flowers and their kinds in one archive, and a release of the flowers."""
    flowers = load_iris()
    file = upload()
    np.savez(file, X=flowers.data, y=flowers.target)
    asked = type(GAUSSIAN)("gaussian", {"epsilon": 4.0, "delta": 1e-6, "clip": 12.0}, array="X")
    return file, service.protect(owner, asked, file, "ward")


def test_an_audit_finds_what_the_command_line_finds(service, owner, iris, reproduced, tmp_path, monkeypatch):
    file, release = iris
    desk = tmp_path / "desk"
    shutil.copytree(release.file.parent, desk)
    shutil.copy(file, desk)
    compared = Compared(file, like=release.file, labels="y", keys=service.keys)
    expected = audit_files(compared, release.file, seed=3).to_dict()
    asked = AuditDescription(labels="y", seed=3)
    job = service.submit_audit(owner, asked, {"original": file}, "ward", release=release.id)
    before = kinds(service, owner)
    with running(service):
        done = ended(service, owner, job)
    assert done.state == "done", done.problem
    assert service.audit(owner, done.result["audit"]) == expected
    assert done.result["consistent"] is expected["consistent"] is True
    assert done.result["sha256"] == release.sha256
    assert any(finding["attack"].startswith("attribute") for finding in expected["findings"])
    page = service.report_page(owner, job.id).decode()
    assert "re-identification" in page
    assert str(service.settings.data) not in page
    assert kinds(service, owner) == before  # it costs nothing
    assert os.listdir(service.settings.data / "jobs") == []
    assert release.file.exists()  # it was copied, not moved
    kept = service.settings.data / "audits" / owner.tenant / job.id
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in kept.iterdir()} == {0o600}
    # Both pages print commands that whoever has the files can type.
    monkeypatch.setenv("SFUMATO_HOME", str(service.keys.home))
    monkeypatch.chdir(desk)
    assert reproduced(page) == [f"sfumato audit {file.name} release.npz --labels y --seed 3"]
    assert reproduced(service.report_page(owner, release.id).decode()) == ["sfumato verify release.npz"]


def test_nothing_is_proven_without_the_certificate(service, owner, iris, upload):
    file, release = iris
    job = audit(service, owner, file, release.file, nonmembers=upload(seed=2, rows=50))
    with running(service):
        done = ended(service, owner, job)
    assert "no certificate" in str(service.audit(owner, done.result["audit"])["statement"]["proven"])


def test_no_file_of_ours_is_read_by_a_name(service, owner, iris, upload, tmp_path):
    file, release = iris
    np.save(tmp_path / "labels.npy", np.arange(150) % 2)
    for name in (str(tmp_path / "labels.npy"), "../labels.npy", "z"):
        sent = {"original": file, "released": release.file}
        with pytest.raises(BadInput, match="must name an array") as refused:
            service.submit_audit(owner, AuditDescription(labels=name), sent, "ward")
        assert name == "z" or name not in str(refused.value)
    own = upload()
    np.savez(own, y=np.arange(150) % 2)
    job = audit(service, owner, file, release.file, labels_file=own)
    with running(service):
        assert ended(service, owner, job).state == "done"


def test_what_cannot_be_audited_fails_in_words(service, owner, iris, upload):
    _, release = iris
    short = audit(service, owner, upload(rows=7), release.file)
    with running(service):
        failed = ended(service, owner, short)
    assert (failed.state, failed.problem.type, failed.problem.spent) == ("failed", "bad-input", False)
    picture = upload().with_name("a.png")
    picture.write_bytes(b"no picture")
    with pytest.raises(BadInput):
        audit(service, owner, picture, release.file)
    table = upload().with_name("a.csv")
    table.write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="needs `schema`"):
        audit(service, owner, table, release.file)


def test_audits_are_for_those_who_may(service, callers, owner, iris):
    file, release = iris
    with pytest.raises(Forbidden):
        audit(service, callers["publisher"], file, release.file)
    with pytest.raises(NotFound):
        audit(service, callers["stranger"], file, release.file)
    job = audit(service, callers["auditor"], release.file, release.file, request="k")
    with pytest.raises(NotFound, match="that is done"):
        service.audit(owner, job.id)
    same = audit(service, callers["auditor"], release.file, release.file, request="k")
    assert same.id == job.id
    with pytest.raises(BadInput, match="other content"):
        audit(service, callers["auditor"], file, release.file, request="k")
    with pytest.raises(Forbidden):
        service.cancel(callers["publisher"], job.id)
    with running(service):
        ended(service, owner, job)
    for asks in (service.audit, service.report_page):
        with pytest.raises(NotFound):
            asks(callers["stranger"], job.id)
    assert len(service.audit(callers["publisher"], job.id)["findings"]) > 3


def test_the_report_of_a_release_has_its_columns_and_its_budget(service, callers, owner, iris):
    _, release = iris
    page = service.report_page(callers["auditor"], release.id).decode()
    for word in ("Gaussian", release.name, release.sha256, "ward"):
        assert word in page
    assert owner.tenant not in page
    with pytest.raises(NotFound):
        service.report_page(callers["stranger"], release.id)
