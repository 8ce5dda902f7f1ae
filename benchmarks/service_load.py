"""The service under load on the loopback: a client on plain sockets, two workers, one SQLite ledger.

Releases are compared with the library's own: ``protect`` on the same files, in as many processes, with a
ledger of its own, taking turns with the service in one run; with one thread in each, and with as many as the
service has clients, since a release waits for the disk. The faster counts. Plans come at a fixed rate
whatever is answered, and each is timed from the moment at which it was due, so that waiting in line is not
hidden. Memory is watched for ten minutes.
``python benchmarks/service_load.py --minutes 0.5`` prints the same rows sooner.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path

from throughput import photographs
from timing import Row

WORKERS = 2
ROUNDS, SECONDS = 3, 4.0
CLIENTS, CONNECTIONS = 8, 32
THREADS = (1, CLIENTS // WORKERS)
RATE, PLANS = 200, 2000
MINUTES = 10.0
ASKED = {"parameters": {"epsilon": 0.01, "unit": "region:16"}}
BUDGET = {"epsilon": 1e6, "delta": 1e-5, "unit": "region:16"}


def measure(minutes: float = MINUTES) -> list[Row]:
    files = photographs()
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as service:
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(WORKERS)
        service.open("photos")
        with context.Pool(WORKERS, begin, (barrier, name, files)) as pool:
            pool.map(library_rate, [(0.5, 1)] * WORKERS, chunksize=1)
            asyncio.run(service.releases(files, 0.5))
            library: dict[int, float] = dict.fromkeys(THREADS, 0.0)
            served, own_seconds, its_seconds = [], [], []
            for _ in range(ROUNDS):
                for threads in THREADS:
                    rates = pool.map(library_rate, [(SECONDS, threads)] * WORKERS, chunksize=1)
                    library[threads] = max(library[threads], sum(rate for rate, _ in rates))
                    own_seconds += [seconds for _, seconds in rates]
                before, done = service.processor(), service.released
                served.append(asyncio.run(service.releases(files, SECONDS)))
                its_seconds.append((service.processor() - before) / (service.released - done))
        asyncio.run(service.plans(files, RATE, RATE))  # the first of each worker, and what they import
        waits = sorted(asyncio.run(service.plans(files, RATE, PLANS)))
        growth = asyncio.run(service.watched(files, minutes))
        spends = service.budget("photos")["spends"]
        paid, lost, memory = spends - service.released, service.faults.total(), service.resident()
    best, own = max(served), max(library.values())
    half, most = waits[len(waits) // 2], waits[int(0.99 * len(waits))]
    kinds = ", ".join(f"{count} × {kind}" for kind, count in service.faults.items()) or "none"
    return [
        *(
            Row(f"the library's protect, {WORKERS} processes × {threads}", f"{rate:,.0f} /s", rate / own)
            for threads, rate in library.items()
        ),
        Row(f"protect, {WORKERS} workers; ratio = over the library", f"{best:,.0f} /s", best / own, 0.6),
        Row(
            "processor time of a release; ratio = the library's over the service's",
            f"{1e3 * min(its_seconds):.1f} ms",
            min(own_seconds) / min(its_seconds),
        ),
        Row(f"plan at {RATE} /s, p50; ratio = over 20 ms", f"{1e3 * half:.1f} ms", half / 0.02),
        Row(f"plan at {RATE} /s, p99; ratio = over 20 ms", f"{1e3 * most:.1f} ms", most / 0.02, at_most=1.0),
        Row(
            f"memory of the workers over {minutes:g} minutes; ratio = end over start",
            f"{memory >> 20} MiB",
            growth,
            at_most=1.1,
        ),
        Row("answers that are errors; ratio = how many", kinds, lost, at_most=0.0),
        Row("spends without a release; ratio = how many", f"{spends:,} spends", paid, at_most=0.0),
    ]


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


# The library


def begin(barrier: Barrier, folder: str, files: list[bytes]) -> None:
    """What each process of the library starts with."""
    os.environ["OMP_NUM_THREADS"] = "1"
    from sfumato.ledger import Ledger
    from sfumato.release import ReleaseRequest
    from sfumato.reports import KeyRing

    global START, FOLDER, LEDGER, KEYS, MECHANISM
    START, FOLDER = barrier, Path(tempfile.mkdtemp(dir=folder))
    LEDGER, KEYS = Ledger(f"sqlite:///{folder}/library.db"), KeyRing(Path(folder) / "keys")
    LEDGER.open("photos", BUDGET["epsilon"], BUDGET["delta"], BUDGET["unit"])
    MECHANISM = ReleaseRequest(parameters=ASKED["parameters"]).make_mechanism("picture")
    for number, file in enumerate(files):
        (FOLDER / f"{number}.jpg").write_bytes(file)


def library_rate(asked: tuple[float, int]) -> tuple[float, float]:
    """Releases a second of this process with so many threads, while the others do the same.

    And the seconds of the processor that each took.
    """
    from sfumato.release import protect

    seconds, threads = asked
    sources = sorted(FOLDER.glob("*.jpg"))
    if START.wait() == 0:
        KEYS.signing_or_new()
    START.wait()
    began, processor = time.perf_counter(), time.process_time()

    def release(place: Path) -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            file = place / f"{done}.jpg"  # a new one each time, as in the service
            protect(sources[done % len(sources)], file, MECHANISM, dataset="photos", ledger=LEDGER, keys=KEYS)
            done += 1
        return done

    with ThreadPoolExecutor(threads) as pool:
        places = [Path(tempfile.mkdtemp(dir=FOLDER)) for _ in range(threads)]
        done = sum(pool.map(release, places))
    return done / (time.perf_counter() - began), (time.process_time() - processor) / done


# The service


@dataclass
class Service:
    """A service that runs, and what its clients have seen of it."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    released: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def open(self, dataset: str) -> None:
        """Give ``dataset`` a budget."""
        self._json("/v1/budgets", {"dataset": dataset, **BUDGET})

    def budget(self, dataset: str) -> dict[str, int]:
        """What it has spent."""
        return self._json(f"/v1/budgets/{dataset}")

    async def releases(self, files: list[bytes], seconds: float) -> float:
        """Releases a second, by clients that each ask for the next when they have one."""
        idle = await self._connections()
        end, began = time.perf_counter() + seconds, time.perf_counter()

        async def client(first: int) -> int:
            done = 0
            while time.perf_counter() < end:
                connection = idle.popleft()
                done += await self._ask(connection, "protect", files[(first + done) % len(files)]) == 200
                idle.append(connection)
            return done

        counts = await asyncio.gather(*(client(7 * number) for number in range(CLIENTS)))
        self.released += sum(counts)
        rate = sum(counts) / (time.perf_counter() - began)
        for _, writer in idle:
            writer.close()
        return rate

    async def plans(self, files: list[bytes], rate: float, count: int) -> list[float]:
        """Seconds from when each plan was due to its answer; none waits for another to be answered."""
        idle = await self._connections()
        start = time.perf_counter() + 0.2

        async def one(number: int) -> float:
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            connection = idle.popleft() if idle else await asyncio.open_connection("127.0.0.1", self.port)
            await self._ask(connection, "plan", files[number % len(files)])
            idle.append(connection)
            return time.perf_counter() - due

        found = await asyncio.gather(*(one(number) for number in range(count)))
        for _, writer in idle:
            writer.close()
        return found

    async def watched(self, files: list[bytes], minutes: float) -> float:
        """The workers' memory after ``minutes`` of releases and plans, over that after a tenth of them."""
        start, samples = time.monotonic(), []
        while (passed := time.monotonic() - start) < 60 * minutes:
            await self.releases(files, min(2.0, 6 * minutes))
            await self.plans(files, RATE / 4, 20)
            samples.append((passed, self.resident()))
        warm = [size for passed, size in samples if passed >= 6 * minutes]
        return warm[-1] / warm[0]

    def resident(self) -> int:
        """Bytes in memory, of all workers together."""
        pages = [int((place / "statm").read_text().split()[1]) for place in self._workers()]
        return sum(pages) * os.sysconf("SC_PAGESIZE")

    def processor(self) -> float:
        """Seconds of the processor that all workers together have had."""
        told = [(place / "stat").read_text().rpartition(")")[2].split() for place in self._workers()]
        return sum(int(one[11]) + int(one[12]) for one in told) / os.sysconf("SC_CLK_TCK")

    def _workers(self) -> list[Path]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [Path(f"/proc/{pid}") for pid in listed]

    async def _connections(self) -> deque[Connection]:
        """Many, which the system shares out among the workers; who takes the first in turn asks them all."""
        made = [asyncio.open_connection("127.0.0.1", self.port) for _ in range(CONNECTIONS)]
        return deque(await asyncio.gather(*made))

    async def _ask(self, connection: Connection, operation: str, body: bytes) -> int:
        reader, writer = connection
        query = urllib.parse.urlencode({"name": "photo.jpg", "asked": json.dumps(ASKED)})
        head = (
            f"POST /v1/datasets/photos/{operation}?{query} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        if status != 200:
            self.faults[str(status)] += 1
        return status

    def _json(self, path: str, body: object = None) -> dict[str, int]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=30) as answer:
            found: dict[str, int] = json.load(answer)
            return found


@contextmanager
def serving(folder: Path) -> Iterator[Service]:
    """A service of two workers in ``folder``, until the block ends."""
    command = [str(Path(sys.executable).with_name("sfumato")), "serve", "--data", str(folder / "service")]
    made = subprocess.run([*command, "tenant", "photographer", "--json"], check=True, capture_output=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = ["--port", str(port), "--workers", str(WORKERS), "--log-file", str(folder / "log")]
    with subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL, env=environment) as process:
        service = Service(process, port, json.loads(made.stdout)["token"])
        try:
            _wait(service)
            yield service
        finally:
            process.terminate()


def _wait(service: Service) -> None:
    for _ in range(600):
        try:
            service._json("/readyz")
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the service did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long memory is watched")
    for row in measure(parser.parse_args().minutes):
        mark = "" if row.reached else "  MISSED"
        print(f"{row.name:<72}{row.value:>14}{row.ratio:>10.3g}  {row.target}{mark}")


if __name__ == "__main__":
    main()
