"""The one path, for every kind of release: what it promises about money, certificates and outputs."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato
import sfumato as sf
from sfumato.errors import BadInput
from sfumato.io import LocalStore
from sfumato.learners.federated import OutOfBudget
from sfumato.ledger import BudgetRefused, Ledger
from sfumato.mechanisms import Gaussian, TrustTier
from sfumato.noise import Keyed
from sfumato.release import checkpoint
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.client_budget import RoundPayment, Waiting
from sfumato.release.combined_statement import combine_statements
from sfumato.release.engines import LocalEngine
from sfumato.release.federated_release import _Run as FederatedRun
from sfumato.release.federated_release import open_federation
from sfumato.release.folder import Draw, Folder, pieces_of
from sfumato.release.manifest import MANIFEST
from sfumato.release.model_release import _Run as ModelRun
from sfumato.release.model_release import open_learning
from sfumato.release.path import Content, HeldPayment, Kind, Payment, asked_for, release, terms_of
from sfumato.release.publication import _Run as PublicationRun
from sfumato.release.publication import open_publication
from sfumato.release.record_files import OneFile, RecordFiles
from sfumato.reports import Certificate, KeyRing, VerificationFailed, certificate_file

KINDS = ["file", "folder", "held file", "object of a tier", "model", "publication", "federated run"]
#: The kinds that keep a checkpoint.
RESUMED = ["model", "publication", "federated run"]
#: How many spends and certificates a whole run has: two clients pay for each of three rounds.
SPENDS, CERTIFICATES = {"federated run": 6}, {"federated run": 2}
ROOT = Path(sfumato.__file__).parent


class PowerCut(BaseException):
    """What ends a run in the middle of its work, as far as one process can."""


@dataclass
class Case:
    """A small real release of one kind: what it is, who pays, where it appears, and what draws its noise."""

    kind: Kind[Any]
    payer: Any
    output: Path
    drawing: tuple[Any, str]
    done: Any = None


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/budget.db"


@pytest.fixture
def make(tmp_path, url) -> Iterator[Callable[..., Case]]:
    """Makes a case; ``bad`` has a record that only reading finds, ``epsilon`` is that of the budgets."""

    def made(name: str, *, bad: bool = False, epsilon: float | None = 1e4) -> Case:
        book = ledgers.enter_context(Ledger(url))
        unit = "client" if name == "federated run" else "record"
        neighbours = "zero-out" if name in ("model", "publication") else "replace"
        names = ["ward/client-1", "ward/client-2"] if name == "federated run" else ["ward"]
        for one in names if epsilon is not None else []:
            book.open(one, epsilon, 1e-2, unit, neighbours)
        return _FACTORIES[name](tmp_path, book, url, bad)

    with ExitStack() as ledgers:
        yield made


def _rows(folder: Path, bad: bool) -> Path:
    values = np.random.default_rng(0).uniform(-0.5, 0.5, size=(30, 3))
    if bad:
        values[7, 1] = np.nan
    np.savez(folder / "x.npz", X=values)
    return folder / "x.npz"


def _file(folder: Path, book: Ledger, url: str, bad: bool, *, held: bool = False) -> Case:
    opened = RecordFiles(Gaussian(epsilon=1.0, delta=1e-6, clip=1.0)).open(_rows(folder, bad))
    payer = HeldPayment("ward", book, key="attempt 1") if held else Payment("ward", book)
    return Case(OneFile(opened, folder / "out.npz"), payer, folder / "out.npz", (opened, "write"))


def _folder(folder: Path, book: Ledger, url: str, bad: bool) -> Case:
    (folder / "in").mkdir()
    rows = np.load(_rows(folder, bad))["X"]
    for number in range(2):
        np.save(folder / "in" / f"{number}.npy", rows + number)
    store, payer, run = LocalStore(folder / "in"), Payment("ward", book), Checkpoint(folder / "out")
    opener = RecordFiles(Gaussian(epsilon=1.0, delta=1e-6, clip=1.0)).keyed_by(run.prepare())
    words = {"payment": payer, "engine": LocalEngine(1), "checkpoint": run}
    kind = Folder(store, LocalStore(folder / "out"), pieces_of(store), opener, **words)
    return Case(kind, payer, folder / "out" / MANIFEST, (Draw, "several"))


def _tier(folder: Path, book: Ledger, url: str, bad: bool) -> Case:
    noise, levels, path = (
        Keyed(bytes(32), dataset="ward", version="1", release="r"),
        (0.0, 0.5),
        _rows(folder, bad),
    )
    first, opened = (
        RecordFiles(TrustTier(distrust=level, levels=levels, epsilon=(1, 8), delta=1e-6, clip=1.0))
        .keyed_by(noise)
        .open(path)
        for level in levels
    )
    words = {"price": first.statement, "declared": {"tiers": list(levels)}, "notes": ("made up",)}
    kind = OneFile(opened, folder / "out.npz", name="bucket/x.npz", shown="x.npz", keyed=noise, **words)
    return Case(kind, Payment("ward", book, "s3 version"), folder / "out.npz", (opened, "write"))


def _labelled(folder: Path, bad: bool, shape: tuple[int, ...]) -> Path:
    random = np.random.default_rng(0)
    values = random.integers(0, 256, size=(40, *shape)).astype(np.uint8)
    labels = random.integers(0, 2, size=40)
    if bad:
        labels[7] = 5
    np.savez(folder / "data.npz", x=values if len(shape) > 1 else values / 256.0, y=labels)
    return folder / "data.npz"


def _model(folder: Path, book: Ledger, url: str, bad: bool) -> Case:
    options = {"epsilon": 8.0, "delta": 1e-5, "neighbours": "zero-out"}
    source = _labelled(folder, bad, (4,))
    opened = open_learning(source, "compact-certified", options, classes=2, reach=2.0, audited=False)
    kind = ModelRun(opened, folder / "model", None, None)
    return Case(kind, Payment("ward", book), folder / "model", (opened.fitted, "fit"))


def _publication(folder: Path, book: Ledger, url: str, bad: bool) -> Case:
    options = {"epsilon": 8.0, "neighbours": "zero-out"}
    opened = open_publication(_labelled(folder, bad, (4, 4)), "certified", options, classes=2, audited=False)
    kind = PublicationRun(opened, folder / "out.npz", None, None)
    return Case(kind, Payment("ward", book), folder / "out.npz", (opened.fitted, "fit"))


def _federated(folder: Path, book: Ledger, url: str, bad: bool) -> Case:
    terms = {"clients": 2, "rounds": 3, "mechanism": "gaussian", "epsilon": 300.0, "delta": 1e-5, "clip": 1.0}
    source = _labelled(folder, bad, (4,))
    opened = open_federation(source, terms, classes=2, dataset="ward", ledger=url)
    kind = FederatedRun(opened, folder / "model", "rounds", Waiting(), None)
    payer = RoundPayment(opened.budgets, tuple(opened.terms.names), opened.one_round)
    return Case(kind, payer, folder / "model", (type(opened.terms.protection()), "protect"))


_FACTORIES = {
    "file": _file,
    "folder": _folder,
    "held file": lambda *given: _file(*given, held=True),
    "object of a tier": _tier,
    "model": _model,
    "publication": _publication,
    "federated run": _federated,
}


def paid(url):
    """How many spends and commits are durable, for whoever opens the ledger now."""
    with Ledger(url) as book:
        entries = [entry for name in book.names() for entry in book.history(name)]
    return sum(entry.kind in ("spend", "commit") for entry in entries)


@pytest.mark.parametrize("name", KINDS)
def test_a_spend_is_durable_before_anything_is_drawn_and_stays(make, url, tmp_path, monkeypatch, name):
    case, seen = make(name), []

    def fails(*given, **words):
        seen.append(paid(url))
        raise PowerCut

    monkeypatch.setattr(*case.drawing, fails)
    with pytest.raises(PowerCut):
        release(case.kind, case.payer, KeyRing(tmp_path / "keys"))
    price = 2 if name == "federated run" else 1
    assert seen == [price]
    assert paid(url) == price
    assert not case.output.exists()
    assert not certificate_file(case.output).exists()


@pytest.mark.parametrize("name", KINDS)
def test_a_check_that_refuses_costs_nothing_and_leaves_nothing(make, url, tmp_path, monkeypatch, name):
    case = make(name, bad=True)
    monkeypatch.setattr(*case.drawing, lambda *given, **words: pytest.fail("this was drawn"))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BadInput):
        release(case.kind, case.payer, KeyRing(tmp_path / "keys"))
    assert paid(url) == 0
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("epsilon", [None, 1e-3], ids=["no budget", "a small budget"])
@pytest.mark.parametrize("name", KINDS)
def test_a_budget_that_refuses_is_not_charged(make, url, tmp_path, monkeypatch, name, epsilon):
    case = make(name, epsilon=epsilon)
    monkeypatch.setattr(*case.drawing, lambda *given, **words: pytest.fail("this was drawn"))
    with pytest.raises((BudgetRefused, OutOfBudget)):
        release(case.kind, case.payer, KeyRing(tmp_path / "keys"))
    assert paid(url) == 0
    assert not case.output.exists()


@pytest.mark.parametrize("name", KINDS)
def test_a_key_that_cannot_sign_is_noticed_before_anything_is_paid(make, url, tmp_path, name):
    case, keys = make(name), KeyRing(tmp_path / "keys")
    keys.signing_or_new()
    keys.signing_file.write_bytes(b"no key")
    with pytest.raises(BadInput):
        release(case.kind, case.payer, keys)
    assert paid(url) == 0
    assert not case.output.exists()


@pytest.mark.parametrize("name", KINDS)
def test_a_paid_release_appears_after_its_certificate_which_the_ledger_keeps(
    make, url, tmp_path, monkeypatch, name
):
    case, keys, replace, appeared = make(name), KeyRing(tmp_path / "keys"), os.replace, []
    certified = case.output / MANIFEST if case.output.suffix == "" else case.output

    def watched(*given, **words):
        replace(*given, **words)
        if case.output.exists():
            appeared.append(certificate_file(certified).exists())

    monkeypatch.setattr(os, "replace", watched)
    done = release(case.kind, case.payer, keys)
    assert appeared == [True]
    assert (done.output, done.dataset) == (certified, "ward")
    sealed = certificate_file(certified).read_bytes()
    stated = Certificate.read(sealed, keys.trusted())
    assert (stated.statement, stated.ledger) == (done.statement, done.paid)
    assert _kept(url) == [sealed.decode()] * CERTIFICATES.get(name, 1)


@pytest.mark.parametrize("name", ["model", "publication"])
def test_what_an_audit_refutes_is_paid_for_and_does_not_appear(make, url, tmp_path, monkeypatch, name):
    case = make(name)

    def refutes(report):
        raise VerificationFailed("the audit shows more than is proven.")

    monkeypatch.setattr(case.kind, "judge", refutes)
    with pytest.raises(VerificationFailed):
        release(case.kind, case.payer, KeyRing(tmp_path / "keys"))
    assert paid(url) == 1
    assert not case.output.exists()


@pytest.fixture
def resume(make, tmp_path, monkeypatch):
    """Runs a kind and returns the numbers of the sums that it drew.

    It is cut off where ``at`` of ``owner`` is called for the ``after``-th time, ``before`` that or after it.
    """

    def run(name, owner=None, at="", after=0, *, before=False):
        drawn, calls, append = [], [], checkpoint._Log.append
        called = None if owner is None else getattr(owner, at)

        def counted(log, array):
            drawn.append(log.next)
            append(log, array)

        def cut(*given, **words):
            calls.append(given)
            found = None if before and len(calls) == after else called(*given, **words)
            if len(calls) == after:
                raise PowerCut
            return found

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint._Log, "append", counted)
            if owner is not None:
                called = getattr(owner, at)
                patch.setattr(owner, at, cut)
            case = make(name)
            try:
                case.done = release(case.kind, case.payer, KeyRing(tmp_path / "keys"))
            except PowerCut:
                assert owner is not None
        return case, drawn

    return run


@pytest.mark.parametrize("name", RESUMED)
def test_an_interrupted_run_is_resumed_for_nothing_and_draws_no_sum_twice(resume, url, tmp_path, name):
    first, drawn = resume(name, checkpoint._Log, "append", 2)
    assert drawn == [0, 1]
    assert not first.output.exists()
    second, later = resume(name)
    assert later
    assert later == list(range(2, 2 + len(later)))
    assert paid(url) == SPENDS.get(name, 1)
    assert second.output.exists()
    assert not [left for left in os.listdir(tmp_path) if left.endswith((".run", ".gone", ".lock"))]


@pytest.mark.parametrize("what", ["data", "code", "request"])
@pytest.mark.parametrize("name", RESUMED)
def test_a_run_is_not_resumed_with_other_data_code_or_parameters(
    resume, url, tmp_path, monkeypatch, name, what
):
    resume(name, checkpoint._Log, "append", 2)
    before, begin = paid(url), checkpoint.Checkpoint.begin

    def changed(self, data, request, **words):
        begin(
            self,
            bytes(32) if what == "data" else data,
            {"changed": True} if what == "request" else request,
            **words,
        )

    monkeypatch.setattr(checkpoint.Checkpoint, "begin", changed)
    if what == "code":
        monkeypatch.setattr(checkpoint, "code_digest", lambda: "other")
    with pytest.raises(BadInput, match=f"the {what}.*changed since"):
        resume(name)
    assert paid(url) == before
    monkeypatch.undo()
    assert resume(name)[0].output.exists()


@pytest.mark.parametrize(
    ("owner", "at", "before"),
    [
        (Ledger, "spend", True),
        (Ledger, "spend", False),
        (Ledger, "lease", False),
        (Ledger, "keep_certificate", True),
        (Ledger, "keep_certificate", False),
        (checkpoint.Checkpoint, "_remove", True),
        (Ledger, "end_lease", True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("name", RESUMED)
def test_a_run_that_is_cut_off_anywhere_has_one_spend_one_certificate_and_one_output(
    resume, url, name, owner, at, before
):
    if (name, at) == ("federated run", "lease"):
        at = "bind"  # its rounds are bound to their outputs, and need no lease
    # A new checkpoint removes what might stand in its place.
    first, drawn = resume(name, owner, at, 2 if at == "_remove" else 1, before=before)
    stood = first.output.exists()
    kept = _kept(url)
    certified = certificate_file(first.kind.output)
    bytes_before = (first.kind.output.read_bytes(), certified.read_bytes()) if stood else None
    if at == "end_lease":
        assert stood  # and the folder is gone: all that is left is a lease, which ends by itself
        return
    second, later = resume(name)
    assert len(drawn) + len(later) == len(set(drawn + later))
    assert paid(url) == SPENDS.get(name, 1)
    assert _kept(url) == [certified.read_text()] * CERTIFICATES.get(name, 1)
    if kept:
        assert later == []
        assert kept[0] == certified.read_text()
    if stood:
        assert bytes_before == (second.kind.output.read_bytes(), certified.read_bytes())
    assert (
        second.done.statement
        == Certificate.read(certified.read_bytes(), KeyRing(first.output.parent / "keys").trusted()).statement
    )


@pytest.mark.parametrize("name", RESUMED)
def test_another_output_of_one_spend_is_refused(resume, make, url, tmp_path, name):
    first, _ = resume(name, Ledger, "keep_certificate", 1)
    kept, case = _kept(url), make(name)
    with pytest.raises(BadInput, match="one spend has one output"):
        release(case.kind, case.payer, KeyRing(tmp_path / "other keys"))  # signed by another
    assert not first.output.exists()
    assert _kept(url) == kept


@pytest.mark.parametrize("name", ["model", "publication"])
def test_a_run_that_was_withheld_is_not_judged_again(make, url, tmp_path, monkeypatch, name):
    case = make(name)

    def refutes(report):
        shutil.copytree(tmp_path / f".{case.output.name}.run", tmp_path / "copy")
        raise VerificationFailed("the audit shows more than is proven.")

    monkeypatch.setattr(case.kind, "judge", refutes)
    with pytest.raises(VerificationFailed):
        release(case.kind, case.payer, KeyRing(tmp_path / "keys"))
    (tmp_path / "copy").rename(tmp_path / f".{case.output.name}.run")
    again = make(name)
    with pytest.raises(BadInput, match="released nothing"):
        release(again.kind, again.payer, KeyRing(tmp_path / "keys"))
    assert paid(url) == 1
    assert not case.output.exists()


def _kept(url):
    """The certificates that the ledger keeps."""
    with Ledger(url) as book:
        return [found for one in book.names() for found in book.certificates(one).values()]


# What may pay or sign: the path, payments, which it is handed, and what charges lost spends again.
# The price of a held file is set aside in protection.py; a Flower client calls the pay that it is handed.
_WORDS = {"spend", "hold", "commit", "signed", "Certificate", "keep_certificate"}
_MAY = {
    "path.py": _WORDS | {"signing_or_new", "pay"},
    "client_budget.py": {"spend", "pay", "keep_certificate"},
    "missing_spends.py": {"spend"},
    "protection.py": {"hold"},
    "federation_apps.py": {"pay"},
}


def test_nothing_but_the_path_pays_or_signs():
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        room, words = file.relative_to(ROOT).parts[0], _WORDS
        if room in ("ledger", "reports"):
            continue
        if room == "io":  # files are committed too, which has nothing to do with money
            words = words - {"commit"}
        if room == "release":
            words = (words | {"pay", "signing_or_new"}) - _MAY.get(file.name, set())
        for node in ast.walk(ast.parse(file.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Attribute) and node.attr in ("spend", "keep_certificate"):
                called = node  # handed to somebody who calls it
            word = getattr(called, "attr", None) or getattr(called, "id", None)
            # A kind calls the pay that it is handed: a name, and no method.
            if word in words and not (word == "pay" and isinstance(called, ast.Name)):
                found.append(f"{file.relative_to(ROOT)}:{node.lineno} {word}")
    assert found == []


SECRET = bytes(range(32))
TERMS = {"mechanism": "Gaussian", "parameters": {"epsilon": 1.0, "clip": [1, 2], "flag": True}}
ROWS = np.arange(24.0).reshape(6, 4)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(f"sqlite:///{tmp_path / 'budget.db'}") as ledger:
        yield ledger


def test_how_rows_are_cut_makes_no_difference():
    codes = np.arange(6)[:, None]
    whole = committed((ROWS, codes))
    assert committed((ROWS[:1], codes[:1]), (ROWS[1:5], codes[1:5]), (ROWS[5:], codes[5:])) == whole
    assert committed((ROWS[:3], codes[:3]), (np.asfortranarray(ROWS[3:]), codes[3:])) == whole


def test_content_that_differs_in_anything_is_told_apart():
    changed = ROWS.copy()
    changed[5, 3] = np.nextafter(changed[5, 3], 0)
    contents = [
        (ROWS,),
        (changed,),
        (ROWS[:5],),
        (ROWS[::-1],),
        (ROWS.reshape(12, 2),),
        (ROWS.view(np.int64),),
        (ROWS.astype(np.float32),),
        (ROWS[:, :2], ROWS[:, 2:]),
        (ROWS[:, :3], ROWS[:, 3:]),
        (ROWS, ROWS[:, :0]),
    ]
    assert len({committed(content) for content in contents}) == len(contents)


def test_two_spellings_of_a_number_are_the_same_terms_and_nothing_else_is():
    same = {"parameters": {"flag": True, "clip": (1.0, 2.0), "epsilon": 1}, "mechanism": "Gaussian"}
    assert committed((ROWS,), terms=same) == committed((ROWS,))
    others = [
        TERMS | {"mechanism": "Laplace"},
        TERMS | {"parameters": {"epsilon": 1.0, "clip": [1, 3], "flag": True}},
        TERMS | {"parameters": {"epsilon": 1.0, "clip": [1, 2], "flag": 1}},
        TERMS | {"parameters": {"epsilon": "1.0", "clip": [1, 2], "flag": True}},
        TERMS | {"declared": None},
    ]
    assert len({committed((ROWS,), terms=terms) for terms in [TERMS, *others]}) == 6


def test_a_commitment_is_under_the_secret_and_the_names_of_the_noise():
    noises = [keyed(), keyed(secret=bytes(32)), keyed(version="2"), keyed(release="s"), keyed(dataset="d")]
    assert len({committed((ROWS,), noise=noise) for noise in noises}) == 5


@pytest.mark.parametrize("dataset", [None, "clinic"])
def test_a_request_needs_somewhere_to_be_remembered(ledger, dataset):
    with pytest.raises(BadInput, match="`request` is paid from a budget"):
        Payment(dataset, None if dataset else ledger, "r")


def test_a_dataset_without_a_budget_is_refused_whatever_else_the_ledger_holds(ledger):
    opens = re.escape("`ledger.open('clinic', epsilon=..., delta=...)`.")
    for request in (None, "r"):
        with pytest.raises(BudgetRefused, match=opens):
            pay(Payment("clinic", ledger, request), gaussian(keyed()))
        with pytest.raises(BudgetRefused, match=opens):
            Payment("clinic", ledger, request).require_budget()
        ledger.open("other", 4, 1e-6)
    region = sf.Guarantee.gaussian(1.0, unit="region:16", neighbours="zero-out")
    with pytest.raises(BudgetRefused, match=re.escape("unit='region:16', neighbours='zero-out')`.")):
        Payment("clinic", ledger).require_budget(region)
    with pytest.raises(BudgetRefused, match="'clinic' came without a ledger"):
        Payment("clinic")


def test_a_request_needs_keyed_noise(ledger):
    payment = Payment("clinic", ledger, "r")
    for randomness in (None, sf.Seeded(3)):
        with pytest.raises(BadInput, match="needs keyed noise"):
            payment.noise(gaussian(randomness).keyed)
    noise = keyed()
    assert payment.noise(gaussian(noise).keyed) is noise
    assert Payment("clinic", ledger).noise(gaussian(noise)) is None


def test_who_names_no_dataset_is_not_charged_nor_who_says_so(ledger):
    ledger.open("clinic", 4, 1e-6)
    for payment in (Payment(), Payment(None, ledger), Payment(uncharged=True)):
        assert pay(payment, gaussian()) is None
        assert payment.notes == ()
    for payment in (Payment("clinic", uncharged=True), Payment("clinic", ledger, uncharged=True)):
        assert pay(payment, gaussian()) is None
        assert payment.notes == ("not charged to the budget of the dataset, as was asked for",)
    with pytest.raises(BadInput, match="`request` is paid from a budget"):
        Payment("clinic", ledger, "r", uncharged=True)
    assert ledger.balance("clinic").spends == 0


def test_what_is_paid_is_what_the_statement_proves(ledger):
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger)
    statement, paid = gaussian().statement(4), pay(payment, gaussian())
    entry = ledger.find(paid["hash"])
    assert (entry.number, entry.ledger) == (paid["number"], paid["ledger"]) == (2, ledger.identity)
    assert (entry.guarantee, entry.purpose, entry.key) == (statement.proven, "out.npy", None)
    assert payment.notes == ()


def test_a_request_is_paid_once_whatever_the_version_of_the_package(ledger, monkeypatch):
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger, "r")
    first = pay(payment, gaussian(keyed()))
    assert pay(payment, gaussian(keyed())) == first
    monkeypatch.setattr(sf, "__version__", "99.0")
    assert pay(payment, gaussian(keyed())) == first
    assert ledger.balance("clinic").spends == 1


@pytest.mark.parametrize(
    ("mechanism", "declared"),
    [
        (sf.Gaussian(epsilon=1, delta=1e-6, clip=2.0), None),
        (sf.Gaussian(epsilon=1, delta=1e-6, bounds=(0.0, 1.0)), None),
        (sf.Gaussian(epsilon=1, delta=1e-6, clip=1.0), {"columns": {"a": {"bounds": [0, 2]}}}),
    ],
)
def test_other_noise_at_the_same_price_is_another_request(ledger, mechanism, declared):
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger, "r")
    pay(payment, gaussian(keyed()))
    other = mechanism.set_params(randomness=keyed())
    assert other.guarantee(4) == gaussian().guarantee(4)
    with pytest.raises(BadInput, match="request 'r' was made from other content, with other parameters"):
        pay(payment, other, declared=declared)
    assert ledger.balance("clinic").spends == 1


def test_what_was_paid_for_under_other_streams_is_not_drawn_again(ledger, monkeypatch):
    """The same request would get other noise, for which nobody paid."""
    ledger.open("clinic", 4, 1e-6)
    payment = Payment("clinic", ledger, "r")
    pay(payment, gaussian(keyed()))
    monkeypatch.setattr(sf.Keyed, "streams", sf.Keyed.streams + 1)
    with pytest.raises(BadInput, match="request 'r' was made from other content, with other parameters"):
        pay(payment, gaussian(keyed()))


def committed(*parts, terms=TERMS, noise=None):
    content = Content()
    for part in parts:
        content.add(*part)
    return content.commitment(noise or keyed(), terms)


def pay(payment, mechanism, declared=None):
    content = Content()
    content.add(ROWS)
    noise = mechanism.keyed if payment.request else None
    facts = {"name": "out.npy", "added": (), "checkpoint": None, "declared": declared}
    return payment.pay(SimpleNamespace(price=mechanism.statement(4), **facts), content, noise)


def gaussian(randomness=None):
    return sf.Gaussian(epsilon=1, delta=1e-6, clip=1.0, randomness=randomness)


def keyed(secret=SECRET, dataset="clinic", version="1", release="r"):
    return sf.Keyed(secret, dataset=dataset, version=version, release=release)


def test_files_that_promise_different_things_name_the_epsilon_of_all(ledger):
    parts = [sf.Gaussian(epsilon=epsilon, clip=1.0).statement() for epsilon in (1.0, 2.0)]
    headline, what = asked_for(combine_statements(parts), parts)
    assert what == "of all 2 files together"
    ledger.open("two", 1.0, 1e-6)
    refused = ledger.preview("two", headline, asked=(headline, what))
    assert "the largest ε of all 2 files together that would still fit is " in refused.refusal


def test_a_statement_without_terms_is_not_committed_to():
    statement = sf.Gaussian(1.0, clip=1.0).statement(4)
    with pytest.raises(ValueError, match="has no terms"):
        terms_of(type(statement).from_dict(statement.to_dict()))
