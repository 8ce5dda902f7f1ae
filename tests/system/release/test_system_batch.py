"""Many files as one release, on threads and on a Ray cluster, in folders and in object stores."""

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_media
from faulty_proxy import proxy_before

from s3_server import s3, s3_endpoint  # noqa: F401 (fixtures)
from sfumato.io import RetryPolicy, cuts_of
from sfumato.release.ray_engine import ray_engine

RAY = ("--engine", "ray", "--workers", "2")
# So many that twenty kills do not outlast the job.
PICTURES = 400
SCHEMA = """
[columns.age]
kind = "numeric"
bounds = [0, 100]
[columns.income]
kind = "numeric"
bounds = [0, 1000]
[columns.smoker]
kind = "categorical"
categories = ["no", "yes"]
"""


@pytest.fixture(autouse=True)
def own_home(folder, monkeypatch):
    """Keys and a ledger of one's own."""
    monkeypatch.setenv("SFUMATO_HOME", str(folder / "home"))


def digests(folder):
    """Every file under a folder by its name."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def table(path, rows, seed, group=1000):
    """People who do not exist."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.uniform(0, 100, rows),
        "income": rng.uniform(0, 1000, rows),
        "smoker": np.where(rng.random(rows) < 0.3, "yes", "no"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=group)


@pytest.fixture(scope="module")
def cluster():
    """A cluster that lasts, for runs that do not start one of their own."""
    with ray_engine(2):
        yield


@pytest.fixture(scope="module")
def pictures_once(tmp_path_factory):
    """A folder of so many pictures that processes draw them."""
    place = tmp_path_factory.mktemp("pictures")
    for number in range(PICTURES):
        small_media.png(place / f"{number:03d}.png", small_media.photograph(96, 96, number))
    return place


@pytest.fixture
def pictures(folder, pictures_once):
    """The folder ``in`` of small pictures."""
    shutil.copytree(pictures_once, folder / "in")


@pytest.fixture
def sources(folder):
    """A folder of each kind of file, and what its release needs to be told."""
    Path("schema.toml").write_text(SCHEMA)
    rng = np.random.default_rng(5)
    for number in range(3):
        table(folder / f"tables/day={number}/t.parquet", 400, number)
        (folder / "tensors").mkdir(exist_ok=True)
        np.savez(folder / f"tensors/{number}.npz", X=rng.uniform(0, 1, (40 + number, 4, 3)))
        (folder / "media").mkdir(exist_ok=True)
        small_media.png(folder / "media" / f"{number}.png", small_media.photograph(24, 20, number))
    small_media.sound(folder / "media" / "tone.wav")
    small_media.video(folder / "media" / "walk.mp4", frames=3)
    return {
        "tables": ("--schema", "schema.toml", "--mechanism", "laplace", "--epsilon", "2"),
        "tensors": ("--mechanism", "gaussian", "--clip", "1", "--epsilon", "2"),
        "media": ("--unit", "item", "--epsilon", "8"),
    }


@pytest.fixture
def budget(called):
    """A budget for each kind."""
    for name, unit in (("tables", "record"), ("tensors", "record"), ("media", "item")):
        opened = called("budget", "open", name, "--epsilon", 200, "--delta", "1e-5", "--unit", unit)
        assert opened.code == 0
    return lambda name: called("budget", "show", name, "--json").result


@pytest.fixture
def spends(called):
    """How often a budget was charged."""
    return lambda name: sum(
        entry["kind"] == "spend" for entry in called("budget", "history", name, "--json").result
    )


def test_a_cluster_gives_the_bytes_that_threads_give_and_a_request_is_charged_once(
    called, sources, budget, cluster
):
    for kind, words in sources.items():
        asked = (*words, "--dataset", kind, "--request", "r1")
        done = called("protect", kind, "-o", f"local/{kind}", *asked, "--json").result
        used = budget(kind)["used"]
        assert used > 0.0
        again = called("protect", kind, "-o", f"ray/{kind}", *asked, *RAY, "--json")
        assert again.code == 0
        assert json.loads(again.out)["released"] == done["released"]
        assert budget(kind)["used"] == used
        assert digests(Path("local", kind)) == digests(Path("ray", kind))
        assert called("verify", f"ray/{kind}").code == 0
        names = {one["source"]: one["file"] for one in done["released"]}
        assert set(names.values()).isdisjoint(names)
        if kind == "tensors":
            tensors = [np.load(Path("ray", kind, names[f"{number}.npz"]))["X"] for number in range(3)]
    assert [tensor.shape for tensor in tensors] == [(40, 4, 3), (41, 4, 3), (42, 4, 3)]


def test_a_request_is_refused_once_anything_that_shapes_the_noise_of_a_file_has_changed(
    called, sources, budget, spends
):
    """Also what not all files share: the bounds of tables, the blocks of pictures beside sounds."""
    tables = ("protect", "tables", *sources["tables"], "--dataset", "tables", "--request", "r1")
    assert called(*tables, "-o", "one/tables").code == 0
    Path("schema.toml").write_text(SCHEMA.replace("[0, 100]", "[0, 101]"))
    assert "give what has changed a new request" in called(*tables, "-o", "two/tables").sentence
    media = ("protect", "media", *sources["media"], "--dataset", "media", "--request", "r1")
    assert called(*media, "--block", 4, "-o", "one/media").code == 0
    refused = called(*media, "--block", 2, "-o", "two/media").sentence
    assert "give what has changed a new request" in refused
    assert not Path("two").exists()
    assert (spends("tables"), spends("media")) == (1, 1)


def test_only_noise_that_can_be_keyed_is_drawn_on_a_cluster(called, sources, cluster):
    projected = ("protect", "tensors", "-o", "p", "--mechanism", "random-projection", *RAY)
    assert "cannot be keyed" in called(*projected).sentence
    np.save("budgets.npy", np.ones(40))
    each = ("--mechanism", "personalised", "--clip", 1, "--epsilon-file", "budgets.npy")
    assert "tensors is a folder" in called("protect", "tensors", "-o", "p", *each).sentence
    assert not Path("p").exists()


STARTED = """
import json, os, subprocess, sys
from pathlib import Path
from sfumato.release.ray_engine import ray_engine

with ray_engine(1) as engine:
    import ray
    assert engine.each(abs, [-1], "", print).results == {-1: 1}
    address = ray.get_runtime_context().gcs_address
    strangers = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    strangers["RAY_NUM_REDIS_GET_RETRIES"] = "2"  # of 20, one a second
    come = [sys.executable, "-c", f"import ray; ray.init(address={address!r})"]
    entered = subprocess.run(come, env=strangers, capture_output=True).returncode == 0
    folder = Path(ray._private.worker._global_node.get_session_dir_path()).parents[1]
    print(json.dumps([address, entered, folder.stat().st_mode & 0o777]), file=sys.__stdout__)
"""


def test_a_cluster_that_is_started_here_is_closed_to_others():
    """It listens on the loopback, obeys nobody without the token, and nobody else gets at its files."""
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    run = subprocess.run(
        [sys.executable, "-c", STARTED], env=quiet, capture_output=True, text=True, check=True
    )
    address, entered, mode = json.loads(run.stdout.splitlines()[-1])
    assert address.startswith("127.0.0.1:")
    assert not entered
    assert mode == 0o700


def test_without_a_request_every_run_draws_noise_of_its_own(called, sources):
    words = sources["tensors"]
    for output in ("a", "b"):
        assert called("protect", "tensors", "-o", output, *words).code == 0
    first, second = (
        {content for name, content in digests(Path(output)).items() if name.endswith(".npz")}
        for output in ("a", "b")
    )
    assert len(first) == len(second) == 3
    assert first.isdisjoint(second)


def test_one_table_is_cut_into_parts_whose_rows_are_those_of_one_file(called, folder, budget, monkeypatch):
    """Parts of about 64 kB: two row groups of the table, 1,638 rows of the array."""
    monkeypatch.setattr(cuts_of, "__defaults__", (64 << 10,))
    Path("schema.toml").write_text(SCHEMA)
    rows = np.random.default_rng(1).uniform(0, 1, (5000, 5))
    table(folder / "big.parquet", 9000, 3, group=2000)
    np.save("big.npy", rows)
    precise = ("--mechanism", "gaussian", "--clip", "3", "--epsilon", "1e6")
    for name, words, suffix, parts in (
        ("tables", ("--schema", "schema.toml", "--mechanism", "laplace", "--epsilon", "2"), "parquet", 3),
        ("tensors", ("--mechanism", "gaussian", "--clip", "1", "--epsilon", "2"), "npy", 4),
        ("precise", precise, "npy", 4),
    ):
        paid = () if name == "precise" else ("--dataset", name)
        done = called("protect", f"big.{suffix}", "-o", f"{name}/", *words, *paid, "--json").result
        assert [one["file"] for one in done["released"]] == [
            f"part-{number:05d}.{suffix}" for number in range(parts)
        ]
        assert called("verify", name).code == 0
    counts = [pq.read_table(f"tables/part-{number:05d}.parquet").num_rows for number in range(3)]
    assert counts == [4000, 4000, 1000]
    released = [np.load(f"precise/part-{number:05d}.npy") for number in range(4)]
    assert np.abs(np.concatenate(released) - rows).max() < 0.1


def test_bad_files_are_named_and_the_rest_goes_on(called, sources, budget, spends, cluster):
    Path("tables/day=1/t.parquet").write_bytes(Path("tables/day=1/t.parquet").read_bytes()[:-100])
    Path("tensors/bad.npz").write_bytes(b"PK\x03\x04")
    broken = np.ones((3, 4, 3))
    broken[1, 2, 0] = np.nan
    np.savez("tensors/nan.npz", X=broken)
    for kind, bad in (("tables", {"day=1/t.parquet"}), ("tensors", {"bad.npz", "nan.npz"})):
        asked = (*sources[kind], "--dataset", kind, *RAY, "--json")
        done = called("protect", kind, "-o", f"out/{kind}", *asked).partial
        assert {entry["file"] for entry in done["skipped"]} == bad
        assert all(entry["why"].endswith(".") for entry in done["skipped"])
        assert not bad & set(digests(Path("out", kind)))
        assert spends(kind) == 1


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder of this test's own, by a short path: the cluster puts sockets there."""
    with tempfile.TemporaryDirectory(prefix="own", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


def test_an_object_store_is_read_and_written_like_a_folder(
    called,
    command,
    sources,
    budget,
    spends,
    s3,  # noqa: F811
    temporary,
):
    bucket = s3.bucket()
    for kind, words in sources.items():
        for file in Path(kind).rglob("*.*"):
            if file.is_file():
                s3.client.upload_file(str(file), bucket, f"in/{file.as_posix()}")
        asked = (*words, "--dataset", kind, "--request", "r1")
        assert called("protect", kind, "-o", f"out/{kind}", *asked).code == 0
        here, there = f"s3://{bucket}/in/{kind}", f"s3://{bucket}/out/{kind}"
        # Workers know the store from the environment that their cluster was started in.
        run, how = (command, RAY) if kind == "media" else (called, ())
        done = run("protect", here, "-o", there, *asked, *how, "--json").result
        assert done["output"] == there
        local = digests(Path("out", kind))
        keys = [key for key in s3.keys(bucket) if key.startswith(f"out/{kind}/")]
        found = {
            key.removeprefix(f"out/{kind}/"): s3.client.get_object(Bucket=bucket, Key=key)["Body"].read()
            for key in keys
        }
        assert found == local
        assert spends(kind) == 1
        assert called("verify", there).code == 0
        one = called("verify", f"{there}/{done['released'][0]['file']}", "--json").result
        assert one["holds"]
        assert one["statement"]["mechanism"] in done["statement"]["mechanism"]
        assert s3.dangling(bucket) == []
    assert not list(temporary.glob("sfumato-*"))


def test_one_object_is_released_by_itself(called, sources, s3):  # noqa: F811
    bucket = s3.bucket()
    s3.client.upload_file("tensors/0.npz", bucket, "x.npz")
    done = called(
        *("protect", f"s3://{bucket}/x.npz", "-o", f"s3://{bucket}/y/x.npz", *sources["tensors"], "--json")
    ).result
    assert done["output"] == f"s3://{bucket}/y/x.npz"
    assert done["certificate_file"] == f"s3://{bucket}/y/x.npz.cert.json"
    assert s3.keys(bucket) == ["x.npz", "y/x.npz", "y/x.npz.cert.json"]
    assert called("verify", f"s3://{bucket}/y/x.npz").code == 0
    again = called(
        *("protect", f"s3://{bucket}/x.npz", "-o", f"s3://{bucket}/y/x.npz", *sources["tensors"])
    ).sentence
    assert "exists" in again
    assert "--overwrite" in again
    s3.client.put_object(Bucket=bucket, Key="y/x.npz", Body=b"other bytes")
    assert called("verify", f"s3://{bucket}/y/x.npz").code == 4
    planned = called("plan", f"s3://{bucket}/x.npz", *sources["tensors"], "--json").result
    assert planned["rows"] == 40


def test_what_cannot_be_is_a_sentence_and_leaves_nothing(called, sources, budget, s3, monkeypatch):  # noqa: F811
    bucket = s3.bucket()
    for file in Path("tensors").iterdir():
        s3.client.upload_file(str(file), bucket, f"in/{file.name}")
    words = (*sources["tensors"], "--dataset", "tensors")
    here, there = f"s3://{bucket}/in", f"s3://{bucket}/out"
    missing = called("protect", f"s3://no-such-{bucket}/in", "-o", there, *words).sentence
    assert f"no-such-{bucket}" in missing
    assert "holds no objects" in called("protect", f"s3://{bucket}/empty", "-o", there, *words).sentence
    s3.client.put_object(Bucket=bucket, Key="out/manifest.json", Body=b'{"run": "another", "files": {}}')
    assert "another run" in called("protect", here, "-o", there, *words).sentence
    assert s3.keys(bucket) == ["in/0.npz", "in/1.npz", "in/2.npz", "out/manifest.json"]
    for inside in (f"{here}/out", f"s3a://{bucket}/in", f"s3://{bucket}"):
        assert "lie in one another" in called("protect", here, "-o", inside, *words).sentence
    itself = called("protect", f"{here}/0.npz", "-o", f"{here}/0.npz", *words).sentence
    assert "would overwrite the input" in itself
    assert s3.keys(bucket) == ["in/0.npz", "in/1.npz", "in/2.npz", "out/manifest.json"]
    assert "one file is one piece" in called("protect", "tensors/0.npz", "-o", "x.npz", *words, *RAY).sentence
    assert "no engine 'dask'" in called("protect", here, "-o", there, *words, "--engine", "dask").sentence
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    begun = time.monotonic()
    assert here in called("protect", here, "-o", there, *words).sentence
    assert time.monotonic() - begun < 60.0
    assert budget("tensors")["used"] == 0.0


def test_an_object_that_comes_half_is_left_out_before_anything_is_paid(
    called,
    sources,
    budget,
    spends,
    s3,  # noqa: F811
    s3_endpoint,  # noqa: F811
    monkeypatch,
):
    """One of three: the others are released and listed, paid once. All of them: nothing is."""
    bucket = s3.bucket()
    for file in Path("tensors").iterdir():
        s3.client.upload_file(str(file), bucket, f"in/{file.name}")
    words = (*sources["tensors"], "--dataset", "tensors")
    here, there = f"s3://{bucket}/in", f"s3://{bucket}/out"
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(RetryPolicy, "wait", lambda self, attempt: 0.01)
    with proxy_before(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.spoil("GET", "/in/", "short", times=1000)
        assert "half-written or truncated" in called("protect", here, "-o", there, *words).sentence
        assert spends("tensors") == 0
        assert [key for key in s3.keys(bucket) if key.startswith("out/")] == []
        proxy.heal()
        proxy.spoil("GET", "1.npz", "short", times=1000)
        done = called("protect", here, "-o", there, *words, "--json").partial
    ((name, why),) = [(one["file"], one["why"]) for one in done["skipped"]]
    assert name == "1.npz"
    assert "half-written or truncated" in why
    assert sorted(one["source"] for one in done["released"]) == ["0.npz", "2.npz"]
    listed = json.loads(s3.client.get_object(Bucket=bucket, Key="out/manifest.json")["Body"].read())
    assert sorted(listed["files"]) == [one["file"] for one in done["released"]]
    assert spends("tensors") == 1


def test_a_cluster_that_nobody_answers_for_is_a_sentence_at_once(command, sources, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    begun = time.monotonic()
    said = command("protect", "tensors", "-o", "out", *sources["tensors"], "--engine", "ray").sentence
    assert "no cluster answers at 127.0.0.1:9" in said
    assert time.monotonic() - begun < 60.0
    assert not Path("out").exists()


def _workers(root):
    """The processes under ``root`` in which a Ray worker draws; not Ray's own."""
    parents, names = {}, {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
                names[int(place.name)] = (place / "cmdline").read_bytes().split(b"\0")[0].decode()
            except OSError:
                continue

    def below(process):
        while process > 1 and process in parents:
            if process == root:
                return True
            process = parents[process]
        return False

    return [process for process, name in names.items() if name.startswith("ray::Map") and below(process)]


def test_a_worker_that_is_killed_twenty_times_changes_nothing(
    called, folder, executable, pictures, budget, spends
):
    """Twenty kills at random in one job, which pays, ten of them at least while it draws: its output is
    complete, and byte for byte that of a run of the same request that nobody disturbs afterwards, which costs
    nothing more."""
    words = ("--unit", "item", "--epsilon", "8", "--dataset", "media", "--request", "r1")
    command = [str(executable), "protect", "in", "-o", "stormy/out", *words, *RAY, "--json"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    rng, drawn = random.Random(3), []
    while len(drawn) < 20 and run.poll() is None:
        time.sleep(rng.uniform(0.02, 0.3))
        some = len(list(folder.glob("stormy/out/*.png")))
        # Half of them strike while everything is read and checked, before the budget pays.
        if (found := _workers(run.pid)) and (some or len(drawn) < 10):
            os.kill(rng.choice(found), signal.SIGKILL)
            drawn.append(some)
    told = run.communicate(timeout=120)[0]
    assert (run.returncode, len(drawn)) == (0, 20)
    assert sum(0 < some < PICTURES for some in drawn) >= 10
    assert len(json.loads(told)["released"]) == PICTURES
    assert called("verify", "stormy/out").code == 0
    used = budget("media")["used"]
    assert used > 0.0
    assert called("protect", "in", "-o", "calm/out", *words).code == 0
    assert digests(Path("stormy/out")) == digests(Path("calm/out"))
    assert budget("media")["used"] == used
    assert spends("media") == 1


def test_a_run_that_is_killed_leaves_no_worker_and_no_manifest_and_goes_on_under_its_request(
    called, folder, executable, pictures, budget, spends
):
    """Killed with SIGKILL while processes draw: nothing is written any more, and nothing is paid twice."""
    words = ("--unit", "item", "--epsilon", "8", "--dataset", "media", "--request", "r1", "--workers", "2")
    run = subprocess.Popen([str(executable), "protect", "in", "-o", "cut/out", *words])
    deadline = time.monotonic() + 120.0
    while len(list(folder.glob("cut/out/*.png"))) < 20:
        assert run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.kill()
    run.wait()
    assert not Path("cut/out/manifest.json").exists()
    assert spends("media") == 1
    time.sleep(2.0)  # workers are told of the kill by the system
    left = digests(folder / "cut/out")
    time.sleep(1.0)
    assert digests(folder / "cut/out") == left
    again = called("protect", "in", "-o", "cut/out", *words, "--json").result
    assert len(again["released"]) == PICTURES
    whole = digests(folder / "cut/out")
    assert all(whole[name] == content for name, content in left.items() if name.endswith(".png"))
    assert called("verify", "cut/out").code == 0
    assert called("protect", "in", "-o", "calm/out", *words[:-1], "1").code == 0
    assert digests(folder / "calm/out") == whole
    assert spends("media") == 1


@pytest.mark.parametrize(("engine", "kills"), [(("--workers", "2"), 2), (RAY, 1)], ids=["local", "ray"])
def test_a_paid_run_that_is_killed_is_resumed_by_the_same_command(
    command, called, folder, executable, pictures, budget, spends, engine, kills
):
    """Killed with SIGKILL while it draws, and named by no request: it is paid once and drawn once."""
    words = ("protect", "in", "-o", "out", "--unit", "item", "--epsilon", "8", "--dataset", "media", *engine)
    log, noted = folder / ".out.run" / "pieces", 0
    for _ in range(kills):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run = subprocess.Popen([str(executable), *words], **silent)
        deadline, begun = time.monotonic() + 180.0, noted
        while noted <= begun:
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
            noted = len(log.read_text().splitlines()) if log.exists() else 0
        run.kill()
        run.wait()
    assert spends("media") == 1
    time.sleep(2.0)  # workers are told of the kill by the system
    left = digests(folder / "out")
    assert "manifest.json" not in left
    assert [stat.S_IMODE(file.stat().st_mode) for file in (log.parent, log)] == [0o700, 0o600]
    other = called(*(word if word != "8" else "7" for word in words[: len(words) - len(engine)])).sentence
    assert "the run in .out.run was interrupted, and the data and the request changed since" in other
    done = command(*words, "--json").result
    assert done["resumed"] >= noted
    assert len(done["released"]) == PICTURES
    whole = digests(folder / "out")
    assert all(whole[name] == content for name, content in left.items() if name.endswith(".png"))
    assert called("verify", "out").code == 0
    assert spends("media") == 1
    assert not log.parent.exists()


def test_ctrl_c_says_what_stays_and_its_files_are_never_taken_for_a_release(
    called, folder, executable, pictures, heeding
):
    words = ("--unit", "item", "--epsilon", "8")
    run = subprocess.Popen(
        heeding(executable, "protect", "in", "-o", "out", *words), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60.0
    while len(list(folder.glob("out/*.png"))) < 3:
        assert run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    told = run.communicate(timeout=60)[1]
    left = len(list(folder.glob("out/*.png")))
    assert run.returncode == 130
    assert told == (
        f"sfumato: interrupted before it was done; {left} files stand in out without a manifest and belong "
        "to no release.\n"
    )
    refused = called("protect", "in", "-o", "out", *words).sentence
    assert "out holds files that are not of this run, " in refused
    assert called("protect", "in", "-o", "other", *words).code == 0
    (folder / "other" / "further.png").write_bytes(next(folder.glob("out/*.png")).read_bytes())
    verified = called("verify", "other", "--json")
    assert verified.code == 4
    assert "lists no further.png" in json.loads(verified.out)["checks"][-1]["detail"]
