"""Engines of federated runs: in this process, as a Flower simulation, or as processes.

All of them take the same steps with the same arithmetic.

**Processes.** The engine ``processes`` starts ``flower-superlink``, which starts the server's app in a
process of its own, and for each client a ``flower-supernode``, which starts the client's app in one for every
message. They talk over the network of this machine alone, on ports that are free, without encryption. (In
Flower 1.41 they speak HTTP; its older service speaks gRPC, see ``federation_processes``.) No package is installed.
Each client has a secret of the run, in the file that its SuperNode reads, and proves its name by it in every
reply. All processes end with the run.

A client whose process dies is left out when Flower has missed its heartbeats for a minute, and the others go
on. What it may have sent it has paid for, in its own ledger, before anything was drawn.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from flwr.app import Context
from flwr.serverapp import Grid

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import write_whole
from sfumato.learners.federated import (
    QUIET,
    Federated,
    make_server_app,
    new_secret,
    require_flower,
)
from sfumato.release import child_process
from sfumato.release.client_budget import BeforeEachRound
from sfumato.release.federation_apps import (
    SERVER,
    TERMS,
    FederatedRun,
    app_of_clients,
    pack_state,
    paid_from,
    read_state,
    training_of,
    write_private,
)
from sfumato.release.ray_engine import keep_ray_private, ray_folder

Engine = Callable[[FederatedRun], Federated]

_GRACE = 5.0


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


_POLL = 0.1
_INTERVAL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
_APP = """from sfumato.release.federation_apps import client_app, server_app

__all__ = ["client_app", "server_app"]
"""


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
    terms, waiting, report = federated.terms, federated.waiting, federated.report
    with federated.apart() as (folder, files), Processes(folder) as run:
        result = folder / "result"
        result.mkdir()
        write_whole(result / "kept", b"")
        done = 0
        if federated.begun is not None:
            done = federated.begun.rounds
            write_whole(result / "begun", pack_state(federated.begun).tobytes())
        secrets = {name: new_secret() for name in terms.names}
        own = {} if federated.noise is None else {SERVER: federated.noise.commitment(b"server")}
        write_private(folder / "secrets.json", json.dumps(secrets | own))
        settings = {TERMS: terms.to_json(), "result": str(result), "secrets": str(folder / "secrets.json")}
        write_app(folder / "app", settings | asdict(waiting) | paid_from(federated.budgets))
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


def engine_of(name: str) -> Engine:
    """The engine of that name, if there is one and what it needs is installed."""
    if name not in ENGINES:
        raise BadInput(f"`engine` was {name!r}", parameter="engine", accepted=", ".join(ENGINES))
    if name != "rounds":
        require_flower(f"`engine={name!r}`")
    return ENGINES[name]


def _rounds(run: FederatedRun) -> Federated:
    terms = run.terms
    clients = {name: training_of(terms, name, *share) for name, share in run.shares.items()}
    return run.federate(clients, pay=BeforeEachRound(run.budgets, terms.names), report=run.report)


def _simulation(run: FederatedRun) -> Federated:
    keep_ray_private()  # before Flower imports Ray
    from flwr.simulation import run_simulation

    made: list[Federated] = []
    failed: list[SfumatoError] = []
    terms, report, text = run.terms, run.report, run.terms.to_json()
    secrets = {name: new_secret() for name in terms.names}
    with run.apart() as (_, files), ray_folder() as folder, _hushed():
        places = [run.place_of(name, files[name], secrets[name]) for name in terms.names]
        clients = app_of_clients(
            lambda context: text, lambda context: places[int(context.node_config["partition-id"])]
        )

        def kept(state: Federated) -> None:
            run.keep(state)
            report(f"round {state.rounds} of {terms.rounds}", state.rounds / terms.rounds)

        def serve(context: Context, grid: Grid) -> Federated:
            # Clients take turns here: with a deadline, a slow one would leave less time to those after it.
            return run.serve(grid, secrets=secrets, each_round=kept, timeout=None)

        report("starting Ray", None)
        server = make_server_app(
            serve,
            lambda context, result: made.append(result),
            lambda context, error: failed.append(error),
        )
        try:
            run_simulation(
                server,
                clients,
                num_supernodes=terms.clients,
                backend_config={
                    "init_args": {
                        "num_cpus": 2,
                        "include_dashboard": False,
                        "log_to_driver": False,
                        "_temp_dir": folder,
                    },
                    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                },
            )
        except Exception:
            # Flower raises an error of its own where the server's app has raised one.
            if not failed:
                raise
    if failed:
        raise failed[0]
    if not made:
        raise BadInput("the simulation ended without a result; its log says why.")
    return made[0]


def _grpc(run: FederatedRun) -> Federated:
    from sfumato.release.federation_processes import run_grpc

    with _hushed():
        return run_grpc(run)


@contextmanager
def _hushed() -> Iterator[None]:
    """What Flower and gRPC tell of a run is for those who run Flower; a lost client is told in a sentence."""
    levels = {logging.getLogger("flwr"): logging.ERROR, logging.getLogger("grpc"): logging.CRITICAL}
    before = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


ENGINES: Mapping[str, Engine] = {
    "rounds": _rounds,
    "simulation": _simulation,
    "processes": run_processes,
    "grpc": _grpc,
}
