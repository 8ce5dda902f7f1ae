"""Engines of federated runs that start processes: Flower's SuperLink and SuperNodes, or clients over gRPC.

They talk over the network of this machine alone, on ports that are free, without encryption. Each client has
a secret of the run, in a file that it alone reads, and proves its name by it. All processes end with the run.
What a client that dies may have sent it has paid for, in its own ledger, before anything was drawn.

**Processes.** ``flower-superlink`` starts the server's app in a process of its own, and for each client a
``flower-supernode`` starts the client's app in one for every message. (In Flower 1.41 they speak HTTP.) No
package is installed. A client proves its name in every reply; one whose process dies is left out when Flower
has missed its heartbeats for a minute, and the others go on. The server hands over its state after each round
(``federation_apps.hand_over``), and goes on when it was kept here.

**gRPC.** The server is in this process. Each client is ``python -m sfumato.release.federation_processes
FILE``, which connects to it and answers until it is ended. FILE holds JSON: ``server``, the address to
connect to; ``secret``; ``federation``, the terms of the run; ``place``, where the client stands, as the
configuration of a SuperNode would say it. Who connects without a secret is no client (``grpc_clients``). A
client whose process dies is noticed when its connection closes, which is at once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from flwr.app import Context, RecordDict
from grpc import RpcError  # type: ignore[import-untyped]

from sfumato.errors import BadInput
from sfumato.io import write_whole
from sfumato.learners.federated import (
    QUIET,
    Credential,
    Federated,
    GrpcClients,
    answer_server,
    new_secret,
    serve_clients,
)
from sfumato.release import child_process
from sfumato.release.federation_apps import SERVER, TERMS, client_app, read_state
from sfumato.release.federation_engines import FederatedRun, pack_state

_CLIENT = "sfumato.release.federation_processes"
# A proxy that the environment names for gRPC is none for this machine.
_DIRECT = {"no_grpc_proxy": "127.0.0.1"}
_GRACE = 5.0
_POLL = 0.1
_INTERVAL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
_APP = """from sfumato.release.federation_apps import client_app, server_app

__all__ = ["client_app", "server_app"]
"""


class ChildProcesses:
    """Starts processes, whose logs stand in ``folder``; all of them end with the block.

    They are told to, and killed where that does not help. Where this process is killed itself, they are told
    by the system (see ``child_process``; on Linux alone). ``own`` is added to the environment that they
    inherit; their Flower home is in the folder too, so that nothing is written to that of whoever runs them.
    What they are to know stands in files: everybody on a machine may see command lines.
    """

    def __init__(self, folder: Path, own: Mapping[str, str]) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.environment = {**os.environ, **QUIET, "FLWR_HOME": str(self.home), **own}
        self._started: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The last one first: it may depend on those before.
        started = self._started[::-1]
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _GRACE
        for process in started:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs:
            log.close()

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start ``command``; what it says is written to ``name`` with ``.log`` in the folder."""
        log = (self.folder / f"{name}.log").open("wb")
        self._logs.append(log)
        # A session of its own: an interrupt from the keyboard reaches this process, which ends the others.
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", child_process.__file__, str(os.getpid()), *command),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process


def write_app(folder: Path, settings: Mapping[str, str | float]) -> None:
    """A Flower app directory with the apps of ``federation_apps`` and the ``settings`` of a run."""
    folder.mkdir(parents=True)
    lines = [
        "[project]",
        'name = "sfumato-federation"',
        'version = "1.0.0"',
        'license = { text = "see sfumato" }',
        "dependencies = []",
        "[tool.flwr.app]",
        'publisher = "sfumato"',
        "[tool.flwr.app.components]",
        'serverapp = "federation:server_app"',
        'clientapp = "federation:client_app"',
        "[tool.flwr.app.config]",
        *(f"{key} = {_toml(value)}" for key, value in settings.items()),
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "federation.py").write_text(_APP, encoding="utf-8")


class Processes(ChildProcesses):
    """The processes of one run; all of them end with the block."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        # Flower looks for work once a second, which a run of many short rounds would mostly wait for.
        poll = os.environ.get(_INTERVAL, "0.1")
        super().__init__(folder, {"PATH": path, _INTERVAL: poll})
        self.address = ""
        self.link: subprocess.Popen[bytes] | None = None
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def start_link(self, patience: float) -> None:
        """Start the SuperLink, and wait until it answers."""
        port = _free_port()
        self.address = f"127.0.0.1:{port}"
        self.link = self.start(
            "superlink",
            _script("flower-superlink"),
            "--insecure",
            *("--host", "127.0.0.1", "--port", str(port)),
            "--disable-runtime-dependency-installation",
        )
        until = time.monotonic() + patience
        while True:
            self._check_link()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
                return
            except OSError:
                if time.monotonic() > until:
                    raise BadInput(f"the SuperLink did not answer within {patience:g} seconds.") from None
                time.sleep(_POLL)

    def start_node(self, place: Mapping[str, str]) -> None:
        """Start the SuperNode of the client that stands at ``place``."""
        # A file of the private folder, and not the arguments: the URL of a ledger may hold a password.
        config = self.folder / f"{place['name']}.toml"
        config.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in place.items()), "utf-8")
        self.nodes[place["name"]] = self.start(
            place["name"],
            _script("flower-supernode"),
            "--insecure",
            *("--superlink", self.address),
            *("--host", "127.0.0.1", "--port", str(_free_port())),
            *("--node-config", str(config)),
        )

    def submit(self, app: Path) -> None:
        """Hand the app to the SuperLink, which starts the run."""
        config = (
            f'[superlink]\ndefault = "run"\n[superlink.run]\naddress = "{self.address}"\ninsecure = true\n'
        )
        (self.home / "config.toml").write_text(config, encoding="utf-8")
        command = [_script("flwr"), "run", str(app), "run", "--format", "json"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = {}
        if not answer.get("success"):
            why = " ".join(str(answer.get("error-message", done.stderr)).split())
            raise BadInput(f"Flower did not start the run: {why[:300]}")

    def check(self, *, without_clients: bool = False) -> None:
        """Raise where the SuperLink is gone, or all clients are, unless it goes on ``without_clients``."""
        self._check_link()
        # All of them are asked: one that died is reaped by that, and what it had started ends with it.
        ended = [process.poll() is not None for process in self.nodes.values()]
        if ended and all(ended) and not without_clients:
            raise BadInput(f"all {len(self.nodes)} clients ended before the run did.")

    def _check_link(self) -> None:
        if self.link is not None and self.link.poll() is not None:
            raise BadInput(f"the SuperLink ended with code {self.link.returncode} before the run did.")


def run_processes(federated: FederatedRun) -> Federated:
    """A run with a process for the server and for each client."""
    terms, waiting, report, done = federated.terms, federated.waiting, federated.report, federated.done
    with federated.apart() as (folder, files), Processes(folder) as run:
        result = folder / "result"
        result.mkdir()
        write_whole(result / "kept", b"")
        if federated.begun is not None:
            write_whole(result / "begun", pack_state(federated.begun))
        secrets = {name: new_secret() for name in terms.names}
        own = {} if federated.noise is None else {SERVER: federated.noise.commitment(b"server")}
        _write_private(folder / "secrets.json", json.dumps(secrets | own))
        settings = {TERMS: terms.to_json(), "result": str(result), "secrets": str(folder / "secrets.json")}
        write_app(folder / "app", settings | asdict(waiting) | federated.budgets.settings())
        report("starting processes", None)
        run.start_link(waiting.patience)
        for name in terms.names:
            run.start_node(federated.place_of(name, files[name], secrets[name]))
        run.submit(folder / "app")
        until = time.monotonic() + waiting.patience + terms.rounds * (waiting.timeout + waiting.patience)
        while (made := read_state(result / "end", terms)) is None:
            if (result / "error").exists():
                raise BadInput((result / "error").read_text("utf-8"))
            # With noise at the server, whether any client is left must not be told.
            run.check(without_clients=terms.central)
            if time.monotonic() > until:
                raise BadInput("the run did not end in the time that its rounds may take.")
            state = read_state(result / "state", terms)
            if state is not None and state.rounds > done:
                federated.keep(state)
                done = state.rounds
                write_whole(result / "kept", str(done).encode())
            report(f"round {min(done + 1, terms.rounds)} of {terms.rounds}", done / terms.rounds)
            time.sleep(_POLL)
        return made


def _script(name: str) -> str:
    """The command ``name`` of this installation of Python, or of the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BadInput(
            f"`engine='processes'` needs {name}: pip install 'sfumato[federated]'.", parameter="engine"
        )
    return found


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


def _toml(value: str | float) -> str:
    """A TOML value; JSON's text is TOML's basic string, but for two characters."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write_private(file: Path, text: str) -> None:
    """Write ``text`` to a new file that its owner alone may read."""
    file.touch(mode=0o600)
    file.write_text(text, "utf-8")


def run_grpc(federated: FederatedRun) -> Federated:
    """A run with a process for each client."""
    terms, report = federated.terms, federated.report
    secrets = {name: new_secret() for name in terms.names}
    # Messages are about as long as a model.
    longest = 2 * sum(array.nbytes for array in terms.initial) + 2**20
    started = dict[str, subprocess.Popen[bytes]]()
    options = federated.remote(appearing=lambda found: _appearing(found, started, federated))
    with (
        federated.apart() as (folder, files),
        serve_clients(secrets, longest, **options) as clients,
        ChildProcesses(folder, _DIRECT) as run,
    ):
        for name in terms.names:
            place, settings = federated.place_of(name, files[name]), folder / f"{name}.json"
            told = {
                "server": clients.address,
                "secret": secrets[name],
                TERMS: terms.to_json(),
                "place": place,
            }
            _write_private(settings, json.dumps(told))
            started[name] = run.start(name, sys.executable, "-P", "-m", _CLIENT, str(settings))

        def each_round(state: Federated) -> None:
            federated.keep(state)
            if state.rounds < terms.rounds:
                _check(clients)
                report(f"round {state.rounds + 1} of {terms.rounds}", state.rounds / terms.rounds)

        made = federated.federate(clients, each_round=each_round)
        if made.stopped is not None and not made.out_of_budget:
            _check(clients)
        return made


def _appearing(found: int, started: Mapping[str, subprocess.Popen[bytes]], federated: FederatedRun) -> None:
    """Tell how many clients are there; raise where one of them has ended before the run began.

    Not where the noise is the server's: the end of one must not keep a run from beginning.
    """
    for name, process in started.items():
        if process.poll() is not None and not federated.terms.central:
            raise BadInput(f"{name} ended with code {process.returncode} before the run began.")
    if found < len(started):
        federated.report(f"starting clients ({found} of {len(started)} connected)", None)
    else:
        done, rounds = federated.done, federated.terms.rounds
        federated.report(f"round {done + 1} of {rounds}", done / rounds)


def _check(clients: GrpcClients) -> None:
    """Raise where no client is left, unless the noise is the server's: the end of one must not end a run."""
    if not clients.central and not clients.present():
        raise BadInput(f"all {len(clients.names)} clients ended before the run did.")


def main(file: str) -> int:
    """Answer the server that ``file`` names until it ends the connection, which is told by a code of 1."""
    told = json.loads(Path(file).read_text("utf-8"))
    config, place = {TERMS: told[TERMS]}, told["place"]
    context = Context(run_id=0, node_id=0, node_config=place, state=RecordDict(), run_config=config)
    try:
        answer_server(told["server"], client_app, context, Credential(place["name"], told["secret"]))
    except RpcError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
