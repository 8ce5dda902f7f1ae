"""Who has which records in figure 3 of TLDP, and how texts and connections become numbers."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from real_data import real

pytest.importorskip("torch")

from sfumato.errors import BadInput
from sfumato_reproductions.tldp.federated import reviews, traffic
from sfumato_reproductions.tldp.federated.methods import CLEAN, NOTHING, Method
from sfumato_reproductions.tldp.federated.protocol import FederatedRun
from sfumato_reproductions.tldp.federated.tasks import Records, Task, load_task
from sfumato_reproductions.tldp.federated.training import scored

RUN = FederatedRun.of(("digits",), None, True)
COUNTED = ("duration", "src_bytes", "count")


def connection(**known: str) -> dict[str, str]:
    """A row of zeros but for ``known``."""
    names = (*traffic._COUNTS, *traffic._RATES, *traffic._FLAGGED)
    row = dict.fromkeys(names, "0") | {"protocol_type": "tcp", "service": "http", "flag": "SF"}
    return row | {"attack": "normal", "difficulty": "3"} | known


def write(file: Path, rows: list[dict[str, str]]) -> None:
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    file.write_bytes(gzip.compress("\n".join(lines).encode()))


def numbered() -> Task:
    """A task whose records are their own numbers."""
    X = np.arange(3000, dtype=np.float32)[:, None]
    train, tests = Records(X, np.arange(3000) % 2), Records(-X, np.arange(3000) % 2)
    return Task("digits", train, tests, lambda: None, RUN)


def test_clients_share_no_record_and_none_that_was_held_back() -> None:
    task = numbered()
    trial = task.trial(0)
    held = np.concatenate([part.X for part in (*trial.clients, trial.tests)]).ravel()
    assert len(held) == len(np.unique(held)) == 600
    assert len(trial.tests.y) == 200
    again = task.trial(1)
    assert set(np.concatenate([part.X for part in (*again.clients, again.tests)]).ravel()) == set(held)
    assert set(again.tests.X.ravel()) != set(trial.tests.X.ravel())
    for seed in (0, 1):
        case = task.case(seed)
        assert [len(part.y) for part in case.clients] == [200, 200, 200]
        private = np.concatenate([part.X for part in case.clients]).ravel()
        assert len(np.unique(private)) == 600
        assert not set(private) & set(held)
        assert (case.tests.X <= 0.0).all()
        assert len(case.tests.y) == 400
    assert set(task.case(0).clients[0].X.ravel()) != set(task.case(1).clients[0].X.ravel())


def test_pictures_have_channels_first_between_minus_one_and_one() -> None:
    task = load_task("digits", RUN)
    (first, *_) = task.case(0).clients
    assert first.X.shape == (200, 1, 8, 8)
    assert (first.X.min(), first.X.max()) == (-1.0, 1.0)
    assert (task.classes, task.span) == (10, 256.0)


def test_a_review_is_hashed_alone() -> None:
    texts = ["a good film", "a good film with good people", "12345"]
    together = reviews.hashed(texts)
    assert together.shape == (3, 512)
    assert np.linalg.norm(together, axis=1) == pytest.approx([8.0, 8.0, 8.0], rel=1e-6)
    for text, row in zip(texts, together, strict=True):
        assert (reviews.hashed([text])[0] == row).all()


def test_a_connection_has_declared_bounds_and_categories() -> None:
    plain = traffic.features(connection())
    assert len(plain) == traffic.COLUMNS == 65
    assert sum(plain) == 3.0  # one protocol, one flag, one bucket of services
    large = traffic.features(connection(**dict.fromkeys(COUNTED, "1e30"), serror_rate="7", service="unheard"))
    assert (min(large), max(large)) == (0.0, 1.0)
    assert sum(large) == pytest.approx(3.0 + len(COUNTED) + 1.0)
    assert sum(traffic.features(connection(protocol_type="new", flag="new"))) == 1.0


def test_tables_are_read_from_the_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    attacks = ["normal", "neptune", "smurf"] * 5
    write(tmp_path / traffic.FILE, [connection(attack=attack) for attack in attacks])
    for file in reviews.FILES.values():
        write(tmp_path / file, [{"label": "1", "text": "good<br />film"}, {"label": "0", "text": "bad"}])
    X, y = traffic.read()
    assert X.shape == (15, 65)
    assert list(y) == [0, 1, 1] * 5
    task = load_task("nsl-kdd", RUN)
    assert (task.learned, task.held_back, task.tested) == (6, 6, 3)
    X, y = reviews.read("train")
    assert (X[0] == reviews.hashed(["good film"])[0]).all()
    assert list(y) == [1, 0]
    task = load_task("imdb", RUN)
    assert task.span == 400_001.0
    assert (task.learned, task.held_back, task.tested) == (1, 1, 2)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("imdb", b"no archive", "is no compressed table with the columns text and label"),
        (
            "imdb",
            gzip.compress(b"text,label\nfine,many\n", mtime=0),
            "is no compressed table with the columns",
        ),
        ("imdb", gzip.compress(b"text,label\n", mtime=0), "holds no rows."),
        ("nsl-kdd", gzip.compress(b"a,b\n1,2\n", mtime=0), "is no table of NSL-KDD with its column names."),
        ("nsl-kdd", b"no archive", "is no compressed table."),
        ("nsl-kdd", gzip.compress(b"a,b\n", mtime=0), "holds no rows."),
    ],
)
def test_other_tables_are_refused(tmp_path, monkeypatch, name, content, said) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    read = (lambda: reviews.read("train")) if name == "imdb" else traffic.read
    (tmp_path / (reviews.FILES["train"] if name == "imdb" else traffic.FILE)).write_bytes(content)
    with pytest.raises(BadInput, match=re.escape(said)):
        read()


def test_the_real_tables_are_what_the_protocol_says(monkeypatch) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(real(traffic.FILE).parent))
    X, y = traffic.read()
    assert X.shape == (25_192, 65)
    assert (X.min(), X.max()) == (0.0, 1.0)
    assert 0.45 < y.mean() < 0.5


def test_a_training_can_be_repeated_and_learns() -> None:
    task = load_task("digits", RUN)

    def f1(kind: str, seed: int, epsilon: float = 0.0) -> float:
        return scored(task, task.case(seed), Method(kind, epsilon), rounds=6, rate=0.8).weighted

    assert f1("TLDP-L", 0, 3000.0) == f1("TLDP-L", 0, 3000.0)
    assert f1(CLEAN, 0) != f1(CLEAN, 1)
    # Nothing was learned where nothing was sent, nor with noise of a hundred times the parameters.
    assert f1(CLEAN, 0) > 0.3 > max(f1(NOTHING, 0), f1("TLDP-L", 0, 1.0))
