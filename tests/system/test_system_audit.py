"""'sfumato audit' and 'sfumato report': what a data owner types to attack a release and show the result."""

import base64
import json
import os
import stat

import numpy as np
import pytest

import sfumato as sf
from sfumato.audits import Audit, Finding
from sfumato.errors import BadInput

SCHEMA = {
    "name": {"kind": "identifier"},
    "age": {"kind": "numeric", "bounds": [0, 100]},
    "group": {"kind": "categorical", "categories": ["a", "b", "c"]},
}


@pytest.fixture
def released(folder, digits, called):
    """X.npz with its labels beside it, and a release of it."""
    X, y = digits
    np.savez("X.npz", X=X, y=y)
    done = called("protect", "X.npz", "--array", "X", "-o", "out.npz", "--epsilon", 8, "--clip", 1)
    assert done.code == 0
    return folder


def test_the_command_of_the_readme(released, called, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # so that no name is wrapped
    ran = called("audit", "X.npz", "out.npz", "--labels", "y", "-o", "report.html")
    assert ran.code == 0
    assert ran.appeared == {"report.html"}
    for word in ("membership", "re-identification", "reconstruction", "attribute inference", "pair game"):
        assert word in ran.out
    assert "no proof of privacy" in ran.out
    page = (released / "report.html").read_text("utf-8")
    assert "out.npz" in page
    assert str(released) not in page  # no path of whoever wrote it


def test_as_json_the_measured_column_is_filled_and_below_the_proven_one(released, called):
    result = called("audit", "X.npz", "out.npz", "--labels", "y", "--json").result
    assert result["consistent"]
    assert 0.0 < result["epsilon_lower"] <= 8.0
    assert result["confidence"] == pytest.approx(0.995)  # the other half is that of the worst-case game
    statement = sf.Statement.from_dict(result["statement"])
    assert len(statement.measured) == len(result["findings"])
    assert statement.consistent()


def test_the_mechanism_is_audited_without_any_data(released, called, reproduced):
    """Gaussian noise at a proven 8 gives away little on real rows, and nearly all on worst-case ones."""
    real = called("audit", "X.npz", "out.npz", "--json").result
    anew = [item for item in real["findings"] if item["mechanism_only"]]
    assert real["epsilon_lower"] < 4.0 < 7.5 < max(item["epsilon_lower"] for item in anew) <= 8.0
    os.remove("X.npz")
    ran = called("audit", "--mechanism-only", "out.npz", "-o", "may travel.html", "-o", "may-travel.json")
    assert ran.code == 0, ran.err
    assert "On worst-case rows its mechanism gives away ε ≥ 7." in ran.out.replace("\n", " ")
    result = called("audit", "--mechanism-only", "out.npz", "--json").result
    assert not result["not_for_release"]
    assert result["findings"] == anew
    page = (released / "may travel.html").read_text("utf-8")
    assert "Not for release." not in page
    assert reproduced(page) == ["sfumato audit out.npz --mechanism-only -o 'may travel.html'"]
    os.rename("out.npz.cert.json", "alone.cert.json")
    assert called("audit", "--mechanism-only", "alone.cert.json", "--json").result["findings"] == anew
    (released / "statement.json").write_text(json.dumps(result["statement"]))
    assert called("audit", "--mechanism-only", "statement.json", "--json").result["findings"] == anew
    assert "no certificate beside out.npz" in called("audit", "--mechanism-only", "out.npz").sentence
    both = ("audit", "--mechanism-only", "out.npz", "out.npz")
    assert "reads no data: leave out ORIGINAL" in called(*both).sentence


def test_the_mechanism_is_audited_by_a_certificate_whose_file_is_elsewhere(released, called):
    """The file may be gone, the signature may not; a folder is audited by the certificate of its manifest."""
    found = called("audit", "--mechanism-only", "out.npz", "--json").result["findings"]
    os.remove("out.npz")
    for name in ("out.npz", "out.npz.cert.json"):
        assert called("audit", "--mechanism-only", name, "--json").result["findings"] == found
    envelope = json.loads((released / "out.npz.cert.json").read_text())
    payload = base64.b64decode(envelope["payload"]).replace(b'"rows":', b'"rows": ', 1)
    envelope["payload"] = base64.b64encode(payload).decode()
    (released / "out.npz.cert.json").write_text(json.dumps(envelope))
    assert called("audit", "--mechanism-only", "out.npz.cert.json").code == 4
    os.mkdir("arrays")
    for number in range(2):
        np.save(f"arrays/{number}.npy", np.full((3, 2), number / 2))
    given = ("--mechanism", "laplace", "--bounds", "0", "1", "--epsilon", "1", "--disjoint")
    assert called("protect", "arrays", "-o", "many", *given).code == 0
    of_all = called("audit", "--mechanism-only", "many/manifest.json.cert.json", "--json").result["findings"]
    for name in ("many", "many/manifest.json"):
        assert called("audit", "--mechanism-only", name, "--json").result["findings"] == of_all
    assert "no-such does not exist" in called("audit", "--mechanism-only", "no-such").sentence


def test_what_is_computed_from_originals_is_for_their_owner_alone(released, called):
    files = ("audit.html", "out.npz.audit.json", "page.html", "plain.html")
    called("audit", "X.npz", "out.npz", "-o", files[0], "-o", files[1])
    called("report", "out.npz", "--original", "X.npz", "--array", "X", "-o", files[2])
    called("report", "out.npz", "-o", files[3])  # with the evidence beside the release
    assert {name: stat.S_IMODE(os.stat(name).st_mode) for name in files} == dict.fromkeys(files, 0o600)
    for name in (files[0], files[2], files[3]):
        assert "Not for release." in (released / name).read_text("utf-8")
    assert json.loads((released / files[1]).read_text())["not_for_release"]
    os.remove(files[1])
    called("report", "out.npz", "-o", "travels.html")
    (released / "ordinary").touch()
    assert os.stat("travels.html").st_mode == os.stat("ordinary").st_mode
    assert "Not for release." not in (released / "travels.html").read_text("utf-8")


def test_every_command_of_a_report_runs(released, called, reproduced):
    np.save("others.npy", np.load("X.npz")["X"][::-1])
    words = ("--labels", "y", "--nonmembers", "others.npy", "--seed", 3, "--confidence", 0.95)
    assert called("audit", "X.npz", "out.npz", *words, "-o", "audit page.html").code == 0
    page = (released / "audit page.html").read_text("utf-8")
    assert reproduced(page) == [
        "sfumato audit X.npz out.npz --labels y --nonmembers others.npy --confidence 0.95 --seed 3 "
        "-o 'audit page.html'"
    ]
    assert (released / "audit page.html").read_text("utf-8") == page  # to the byte
    absolute = released / "X.npz"
    called("report", "out.npz", "--original", absolute, "--labels", "y", "-o", "page.html", "--title", "A B")
    page = (released / "page.html").read_text("utf-8")
    assert str(released) not in page
    assert reproduced(page) == [
        "sfumato verify out.npz",
        "sfumato report out.npz --original X.npz --labels y --title 'A B' -o page.html",
    ]
    assert (released / "page.html").read_text("utf-8") == page


def test_an_audit_is_repeated_to_the_bit(released, called):
    first, second = (called("audit", "X.npz", "out.npz", "--json").result for _ in range(2))
    assert first == second
    other = called("audit", "X.npz", "out.npz", "--seed", 1, "--json").result
    assert other["findings"] != first["findings"]


def test_evidence_beside_a_release_enters_its_report(released, called):
    called("audit", "X.npz", "out.npz", "-o", "out.npz.audit.json")
    ran = called("report", "out.npz", "--original", "X.npz", "--labels", "y", "-o", "page.html")
    assert ran.code == 0, ran.err
    page = (released / "page.html").read_text("utf-8")
    assert "pair game" in page
    assert "linear-probe accuracy" in page
    plain = called("report", "page", "out.npz", "-o", "again.html", "--json")
    assert plain.result == {"file": "again.html"}
    (released / "out.npz.audit.json").write_text("{}")
    assert "no evidence" in called("report", "out.npz", "-o", "bad.html").sentence


def test_several_releases_make_a_frontier_and_a_budget_is_shown(released, called, monkeypatch):
    monkeypatch.setenv("SFUMATO_HOME", str(released / "home"))  # the budget is this test's own
    called("budget", "open", "clinic", "--epsilon", 30, "--delta", 1e-5)
    for epsilon in (2, 12):
        made = called(
            *("protect", "X.npz", "--array", "X", "-o", f"e{epsilon}.npz", "--clip", 1),
            *("--epsilon", epsilon, "--dataset", "clinic"),
        )
        assert made.code == 0, made.err
    ran = called(
        *("report", "e2.npz", "e12.npz", "--original", "X.npz", "--labels", "y"),
        *("--dataset", "clinic", "-o", "page.html"),
    )
    assert ran.code == 0, ran.err
    page = (released / "page.html").read_text("utf-8")
    assert "Frontier" in page
    assert "clinic" in page


def test_pictures_are_shown_only_when_asked_for(folder, digits, called):
    X, y = digits
    np.savez("X.npz", X=X.reshape(-1, 8, 8), y=y)
    np.save("out.npy", sf.Gaussian(8.0, clip=1.0).release(X).value)
    quiet = called("audit", "X.npz", "out.npy", "--labels", "y", "-o", "quiet.html")
    shown = called("audit", "X.npz", "out.npy", "--labels", "y", "-o", "shown.html", "--show-originals", 3)
    assert quiet.code == shown.code == 0, shown.err
    assert "data:image/png" not in (folder / "quiet.html").read_text("utf-8")
    assert (folder / "shown.html").read_text("utf-8").count("data:image/png") == 6
    assert "add -o report.html" in called("audit", "X.npz", "out.npy", "--show-originals", 3).sentence


def test_nothing_is_proven_without_a_certificate_that_holds(released, called):
    os.remove("out.npz.cert.json")
    bare = called("audit", "X.npz", "out.npz", "--json").result
    assert bare["statement"]["proven"]["theorem"] == "no certificate stands beside the file"
    called("protect", "X.npz", "--array", "X", "-o", "new.npz", "--epsilon", 8, "--clip", 1)
    np.savez("new.npz", X=np.load("out.npz")["X"])
    altered = called("audit", "X.npz", "new.npz", "--json").result
    assert "does not hold" in altered["statement"]["proven"]["theorem"]


def test_pooled_releases_are_averaged_and_compared(released, called):
    called("protect", "X.npz", "--array", "X", "-o", "again.npz", "--epsilon", 8, "--clip", 1)
    result = called("audit", "X.npz", "out.npz", "--also", "again.npz", "--json").result
    found = {item["attack"]: item for item in result["findings"]}
    pooled = found["averaging"]
    assert pooled["value"] < pooled["numbers"]["error_of_one"]
    assert any("shared" in name for name in found)


def test_a_table_is_audited_under_its_schema(folder, called, reproduced):
    rng = np.random.default_rng(0)
    rows = [f"p{i},{rng.uniform(0, 100):.1f},{'abc'[rng.integers(3)]}" for i in range(400)]
    (folder / "in.csv").write_text("name,age,group\n" + "\n".join(rows) + "\n")
    (folder / "schema.json").write_text(json.dumps({"columns": SCHEMA}))
    protected = called("protect", "in.csv", "-o", "out.csv", "--epsilon", 4, "--schema", "schema.json")
    assert protected.code == 0, protected.err
    result = called(
        *("audit", "in.csv", "out.csv", "--schema", "schema.json", "--labels", "group", "--json")
    ).result
    assert result["consistent"]
    assert {"attribute inference", "pair game"} <= {item["attack"] for item in result["findings"]}
    assert "give the --schema" in called("audit", "in.csv", "out.csv").sentence
    words = ("--schema", "schema.json", "--labels", "group", "-o", "page.html")
    assert called("report", "out.csv", "--original", "in.csv", *words).code == 0
    page = (folder / "page.html").read_text("utf-8")
    for name in ("mean of age", "marginal of age", "group shares of group", "group, which is no feature"):
        assert name in page
    assert "guessing" in page
    assert "Fréchet" not in page
    assert "inception" not in page
    reproduced(page)
    wrong = called("audit", "in.csv", "out.csv", "--schema", "schema.json", "--labels", "age")
    assert "no categorical or boolean column" in wrong.sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["audit"], "audit needs ORIGINAL and RELEASED"),
        (["audit", "X.npz"], "audit needs ORIGINAL and RELEASED"),
        (["audit", "X.npz", "missing.npz"], "missing.npz"),
        (["audit", "X.npz", "out.npz", "--labels", "z"], "neither an array of X.npz nor a file"),
        (["audit", "X.npz", "short.npz", "--array", "X"], "1797 rows and the release 100"),
        (["audit", "X.npz", "out.npz", "--labels", "one.npy"], "class"),
        (["audit", "X.npz", "out.npz", "--labels", "few.npy"], "one label a record"),
        (["audit", "X.npz", "out.npz", "--array", "X", "--nonmembers", "few.npy"], "columns"),
        (["audit", "X.npz", "out.npz", "--array", "X", "--confidence", "1.5"], "confidence"),
        (["audit", "X.npz", "out.npz", "-o", "report.pdf"], "neither a report"),
        (["report", "out.npz", "-o", "report.pdf"], "must name an .html file"),
        (["report", "out.npz", "--labels", "y", "-o", "r.html"], "add --original"),
        (["report", "nan.npy", "-o", "r.html"], "not finite in row 2"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_a_sentence(released, called, arguments, sentence):
    np.savez("short.npz", X=np.load("out.npz")["X"][:100])
    np.save("one.npy", np.zeros(1797))
    np.save("few.npy", np.zeros((5, 3)) if "--nonmembers" in arguments else np.arange(5))
    np.save("nan.npy", np.array([[1.0], [np.nan]]))
    assert sentence in called(*arguments).sentence


def test_sf_audit_is_evidence_and_prints(digits):
    X, y = digits
    release = sf.Gaussian(8.0, clip=1.0).release(X)
    found = sf.audit(release, original=X, labels=y)
    assert isinstance(found, sf.Evidence)
    assert isinstance(found, Audit)
    assert all(isinstance(item, Finding) for item in found.findings)
    assert "ε at least" in str(found)
    assert found.release.value is release.value
    assert release.statement.measured == ()  # what was given stays as it was
    assert found.statement.measured[0].attack == found.findings[0].attack
    assert not found.alarms


def test_sf_audit_raises_an_alarm_where_a_mechanism_lies(digits):
    """Released without any noise under a statement of ε = 1: false-alarm rate 1% by the confidence."""
    X, _ = digits
    honest = sf.Gaussian(1.0, clip=10.0).release(X)
    broken = sf.Release(X.copy(), honest.statement)
    found = sf.audit(broken, original=X)
    assert found.alarms
    assert "Alarm" in str(found)
    assert not found.statement.consistent()


def test_sf_audit_sees_through_an_embedding_with_a_secret_column_order(digits):
    X, _ = digits
    release = sf.TrustAdaptive(distrust=0.0, epsilon=(15.0, 80.0), delta=1e-5, clip=1.0).release(X)
    hidden = sf.ReverseManifold(2.0, key=bytes(range(32))).apply(release)
    found = {item.attack: item for item in sf.audit(hidden, original=X).findings}
    assert found["pairing"].value == 1.0
    assert found["pairing"].numbers["alpha"] == pytest.approx(2.0)
    assert found["re-identification"].beats_chance


def test_under_zero_out_a_bound_is_halved_and_stays_below_the_proof(digits):
    X, _ = digits
    release = sf.Gaussian(8.0, clip=1.0, neighbours="zero-out").release(X)
    found = sf.audit(release, original=X)
    bounds = [item for item in found.findings if item.epsilon_lower is not None]
    assert bounds
    assert all(item.neighbours == "zero-out" for item in bounds)
    assert found.statement.consistent()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"original": np.zeros((3, 2))}, "compares them row by row"),
        ({"confidence": 1.0}, "`confidence` was 1.0"),
        ({"labels": np.zeros(140)}, "class"),
        ({"nonmembers": np.zeros((30, 5))}, "columns"),
    ],
)
def test_sf_audit_refuses_in_a_sentence(change, sentence):
    X = np.random.default_rng(0).random((140, 4))
    given = {"original": X} | change
    with pytest.raises(BadInput, match=sentence):
        sf.audit(sf.Gaussian(1.0, clip=1.0).release(X), **given)
    with pytest.raises(BadInput, match="at least 100"):
        sf.audit(sf.Gaussian(1.0, clip=1.0).release(X[:40]), original=X[:40])
    with pytest.raises(BadInput, match="takes a release"):
        sf.audit(X, original=X)
