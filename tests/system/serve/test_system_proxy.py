"""The storage proxy as people use it: a real bucket behind it, boto3 and the AWS command line before it."""

import io
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from ledger_server import postgresql  # noqa: F401 (a fixture)
from serve_process import serving

from s3_server import ACCESS_KEY, SECRET_KEY, s3_endpoint  # noqa: F401 (a fixture)
from sfumato.serve.reader_tiers import ReaderFacts, TierStore
from sfumato.serve.refusals import Conflict
from sfumato.serve.registry_database import RegistryDatabase

pytest.importorskip("fastapi", reason="the extra serve is not installed")
boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
botocore = pytest.importorskip("botocore.config", reason="boto3 is not installed")
ClientError = pytest.importorskip("botocore.exceptions", reason="boto3 is not installed").ClientError
pytest.importorskip("s3fs", reason="the extra storage is not installed")

ARRAYS = {"parameters": {"epsilon": [1, 8], "delta": 1e-6, "clip": 1.0}}
COLUMNS = {"age": {"kind": "numeric", "bounds": [0, 120]}, "patient": {"kind": "identifier"}}
FILES = {"array": ARRAYS, "table": {"parameters": {"epsilon": [1, 8]}, "columns": COLUMNS}}
RULES = [
    {"readers": ["alice"], "distrust": 0.0},
    {"readers": ["bob"], "networks": ["127.0.0.0/8"], "distrust": 0.5},
]
X = np.random.default_rng(3).uniform(-0.5, 0.5, size=(200, 3))


def npz(values):
    out = io.BytesIO()
    np.savez(out, X=values)
    return out.getvalue()


@pytest.fixture(scope="module")
def storage(s3_endpoint):  # noqa: F811
    """A real bucket of private objects, and how a service reaches it: by nobody's own configuration."""
    names = {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "OMP_NUM_THREADS": "1",
    }
    client = boto3.client(
        "s3",
        endpoint_url=s3_endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    )
    name = f"hospital-{os.getpid()}"
    client.create_bucket(Bucket=name)

    def put(key, content):
        client.put_object(Bucket=name, Key=key, Body=content)

    for prefix in ("private", "changing", "killed"):
        put(f"{prefix}/X.npz", npz(X))
    put("private/day 1/ä.csv", b"patient,age\nMeier,30\nRossi,41\n")
    put("private/notes.txt", b"private")
    return SimpleNamespace(client=client, name=name, put=put, environment=names, source=f"s3://{name}")


@pytest.fixture(scope="module")
def served(storage, tmp_path_factory):
    """A service of two processes whose tenant may have part of the bucket served."""
    options = [
        word for part in ("private", "changing") for word in ("--source", f"clinic={storage.source}/{part}")
    ]
    with serving(
        tmp_path_factory.mktemp("proxy"),
        "--workers",
        2,
        *options,
        tenants=("clinic",),
        environment=storage.environment,
    ) as made:
        assert made.ask("PUT", "/v1/policy", {"policy": {"rules": RULES}}).status == 200
        yield made


def declare(served, source, name="ward-files", dataset="ward", epsilon=40.0):
    """A budget, and a bucket that is paid from it."""
    served.open_budget(dataset, epsilon=epsilon)
    new = {"name": name, "source": source, "dataset": dataset, "tiers": [0, 0.5, 1], "files": FILES}
    return served.ask("POST", "/v1/proxies", new | {"public_names": True})


def access_of(served, reader):
    """The access key of a new key for ``reader``."""
    new = {"name": "r", "role": "auditor", "scopes": ["read"], "reader": reader}
    made = served.ask("POST", "/v1/keys", new)
    return served.ask("POST", f"/v1/keys/{made.json['id']}/s3").json


def client_of(served, access, make=boto3.client, signature="s3v4"):
    return make(
        "s3",
        endpoint_url=f"http://127.0.0.1:{served.port}/s3",
        aws_access_key_id=access["access_key_id"],
        aws_secret_access_key=access["secret_access_key"],
        region_name="eu-west-1" if signature else "us-east-1",
        config=botocore.Config(signature_version=signature, retries={"total_max_attempts": 2}, proxies={}),
    )


def spends(served, dataset="ward"):
    history = served.ask("GET", f"/v1/budgets/{dataset}/history").json
    return [entry["purpose"].partition(" (")[0] for entry in history if entry["kind"] == "spend"]


def body(client, key, bucket="ward-files", **words):
    return client.get_object(Bucket=bucket, Key=key, **words)["Body"].read()


def test_boto3_and_the_aws_command_line_read_protected_objects_by_tier(storage, served, tmp_path):
    assert "not allowed" in declare(served, f"{storage.source}/killed").problem(400)
    assert declare(served, f"{storage.source}/private").status == 201
    access = {name: access_of(served, name) for name in ("alice", "bob", "carol")}
    clients = {name: client_of(served, key) for name, key in access.items()}
    alice = clients["alice"]
    assert [one["Name"] for one in alice.list_buckets()["Buckets"]] == ["ward-files"]
    listed = alice.list_objects_v2(Bucket="ward-files")["Contents"]
    assert [(one["Key"], one["Size"]) for one in listed] == [("X.npz", 0), ("day 1/ä.csv", 0)]
    bucket = client_of(served, access["alice"], boto3.resource).Bucket("ward-files")
    assert [one.key for one in bucket.objects.all()] == ["X.npz", "day 1/ä.csv"]
    assert [one.key for one in bucket.objects.page_size(1)] == ["X.npz", "day 1/ä.csv"]
    pages = alice.get_paginator("list_objects").paginate(Bucket="ward-files", Delimiter="/", MaxKeys=1)
    assert list(pages.search("[Contents[].Key, CommonPrefixes[].Prefix][]")) == ["X.npz", "day 1/"]
    # Both processes and all readers at once: one charge, one draw for each tier.
    with ThreadPoolExecutor(9) as pool:
        asked = [(name, pool.submit(body, clients[name], "X.npz")) for name in [*clients] * 6]
    found = {(name, answer.result()) for name, answer in asked}
    assert len(found) == 3
    got = dict(found)
    errors = [np.std(np.load(io.BytesIO(got[name]))["X"] - X) for name in clients]
    assert errors == sorted(errors)
    assert spends(served) == ["ward-files/X.npz"]
    head = alice.head_object(Bucket="ward-files", Key="X.npz")
    assert head["ContentLength"] == len(got["alice"])
    assert body(alice, "X.npz", Range="bytes=3-11") == got["alice"][3:12]
    with pytest.raises(ClientError, match="304"):
        body(alice, "X.npz", IfNoneMatch=head["ETag"])
    alice.download_file("ward-files", "X.npz", str(tmp_path / "A.npz"))
    assert (tmp_path / "A.npz").read_bytes() == got["alice"]
    for key, code in (
        ("notes.txt", "AccessDenied"),
        ("Y.npz", "NoSuchKey"),
        ("../killed/X.npz", "NoSuchKey"),
    ):
        with pytest.raises(ClientError, match=code):
            body(alice, key)
    for refused in (lambda **at: alice.put_object(**at, Body=b"1"), alice.delete_object):
        with pytest.raises(ClientError, match="MethodNotAllowed"):
            refused(Bucket="ward-files", Key="X.npz")
    url = alice.generate_presigned_url("get_object", {"Bucket": "ward-files", "Key": "X.npz"}, 60)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert opener.open(url, timeout=30).read() == got["alice"]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        opener.open(url.replace("Expires=60", "Expires=61"), timeout=30)
    # What boto3 presigns where nothing is configured: by version 2, in us-east-1.
    unset = client_of(served, access["alice"], signature=None)
    old = unset.generate_presigned_url("get_object", {"Bucket": "ward-files", "Key": "X.npz"}, 60)
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        opener.open(old, timeout=30)
    assert b"s3v4" in refused.value.read()
    _by_the_command_line(served, access["bob"], got["bob"], tmp_path, storage.environment)
    assert sorted(spends(served)) == ["ward-files/X.npz", "ward-files/ä.csv"]
    told = served.log.read_text()
    assert '"key"' in told
    for private in ("X.npz", "csv", "alice", "Meier", SECRET_KEY, storage.name, "ward-files"):
        assert private not in told


def _by_the_command_line(served, access, expected, folder, environment):
    """What the AWS command line makes of it, where it is installed; a sync brings what nobody drew before."""
    aws = shutil.which("aws")
    client = client_of(served, access)
    if aws is None or subprocess.run([aws, "--version"], capture_output=True).returncode != 0:
        assert body(client, "day 1/ä.csv").startswith(b"age\n")
        return
    own = {
        "AWS_ACCESS_KEY_ID": access["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": access["secret_access_key"],
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{served.port}/s3",
        "AWS_MAX_ATTEMPTS": "2",
    }

    def run(*words):
        return subprocess.run(
            [aws, *words],
            env=os.environ | environment | own,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=folder,
        )

    assert "ward-files" in run("s3", "ls").stdout
    query = ("--query", "Contents[].Key", "--output", "text")
    assert run("s3api", "list-objects", "--bucket", "ward-files", *query).stdout == "X.npz\tday 1/ä.csv\n"
    synced = run("s3", "sync", "s3://ward-files", "here")
    assert synced.stdout.count("download:") == 2, synced.stderr
    assert run("s3", "sync", "s3://ward-files", "here").stdout == ""
    assert (folder / "here" / "X.npz").read_bytes() == expected
    text = (folder / "here" / "day 1" / "ä.csv").read_text()
    assert text.startswith("age\n")
    assert "Meier" not in text
    put = run("s3", "cp", "A.npz", "s3://ward-files/new.npz")
    assert put.returncode == 1
    assert "MethodNotAllowed" in put.stderr


def test_a_changed_object_is_paid_for_until_the_budget_is_gone(storage, served):
    assert declare(served, f"{storage.source}/changing", "changing", "small", epsilon=12.0).status == 201
    alice = client_of(served, access_of(served, "alice"))
    first = body(alice, "X.npz", "changing")
    seen, refused = {first}, None
    for number in range(1, 20):
        storage.put("changing/X.npz", npz(X + number / 1000))
        try:
            seen.add(body(alice, "X.npz", "changing"))
        except ClientError as error:
            refused = error.response
            break
    assert refused["Error"]["Code"] == "BudgetRefused"
    assert "small" in refused["Error"]["Message"]
    assert refused["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert len(seen) == len(spends(served, "small")) == number
    # An older version that comes back was paid for, and is the same.
    storage.put("changing/X.npz", npz(X))
    assert body(alice, "X.npz", "changing") == first
    storage.client.delete_object(Bucket=storage.name, Key="changing/X.npz")
    with pytest.raises(ClientError, match="NoSuchKey"):
        body(alice, "X.npz", "changing")


def test_a_service_killed_while_it_draws_gives_the_same_bytes_afterwards_for_one_charge(storage, tmp_path):
    storage.put("killed/X.npz", npz(np.random.default_rng(4).uniform(-0.1, 0.1, size=(8_000, 4))))
    options = ("--source", f"clinic={storage.source}/killed")
    with serving(tmp_path, *options, tenants=("clinic",), environment=storage.environment) as served:
        tokens = served.tokens
        assert declare(served, f"{storage.source}/killed").status == 201
        access = access_of(served, "carol")
        asking = threading.Thread(target=_quietly, args=(client_of(served, access), "X.npz"))
        asking.start()
        end = time.monotonic() + 30
        while not spends(served) and time.monotonic() < end:
            time.sleep(0.02)
        served.run.send_signal(signal.SIGKILL)
        served.run.wait()
        asking.join(60)
    with serving(tmp_path, *options, tenants=(), environment=storage.environment) as served:
        served.tokens |= tokens
        assert spends(served) == ["ward-files/X.npz"]
        kept = [file for file in (served.data / "proxy").rglob("*.npz") if not file.name.startswith(".")]
        before = [file.read_bytes() for file in kept]
        got = body(client_of(served, access), "X.npz")
        assert before in ([], [got])
        for file in (served.data / "proxy").rglob("*.npz"):
            file.unlink()
        assert body(client_of(served, access), "X.npz") == got
        assert spends(served) == ["ward-files/X.npz"]


def _quietly(client, key):
    try:
        body(client, key)
    except Exception:
        return


def test_declarations_stand_on_postgresql_too(postgresql):  # noqa: F811
    url, tenant = postgresql(), "t" + "1" * 16
    with ThreadPoolExecutor(4) as pool:  # several processes that start at once make the tables once
        databases = list(pool.map(lambda _: RegistryDatabase(url), range(4)))
        stores = [TierStore(database) for database in databases]
        made = list(pool.map(lambda store: store.declare(tenant, "files", {"tiers": [0, 1]}), stores))
    first, other = stores[0], stores[1]
    assert len({one.id for one in made}) == 1
    with pytest.raises(Conflict):
        other.declare(tenant, "files", {"tiers": [0]})
    first.say(tenant, "bob", ReaderFacts(authorisations=["ethics"], jurisdiction="DE"))
    first.say(tenant, "bob", ReaderFacts(authorisations=["ethics"], jurisdiction="FR"))
    assert other.readers(tenant) == {"bob": ReaderFacts(authorisations=["ethics"], jurisdiction="FR")}
    first.remove(tenant, "files")
    assert other.declared(tenant, "files") is None
    assert other.declare(tenant, "files", {"tiers": [0]}).id != made[0].id
    for database in databases:
        database.close()
