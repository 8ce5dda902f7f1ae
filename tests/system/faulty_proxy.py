"""A real HTTP proxy in front of a real server, which spoils chosen requests in the ways that networks do."""

import asyncio
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

#: What can happen to a request, and whether the server behind gets to see it.
WAYS = {
    "reset": "the connection breaks in the middle of the request; the server sees nothing",
    "stall": "nobody answers until the client gives up; the server sees nothing",
    "lose": "the server does it, and the connection breaks before its answer",
    "cut": "the answer breaks off in the middle of its body",
    "short": "half of the body comes, and says that it is all of it",
    "500": "an answer of the proxy's own: an internal error",
    "503": "an answer of the proxy's own: slow down",
    "403": "an answer of the proxy's own: access denied",
    "404": "an answer of the proxy's own: the upload is not known",
}
_CODES = {"500": "InternalError", "503": "SlowDown", "403": "AccessDenied", "404": "NoSuchUpload"}


@dataclass
class Spoiling:
    """The next ``times`` requests of ``method`` with ``part`` in their target."""

    method: str
    part: str
    way: str
    times: int
    after: int


@dataclass
class FaultyProxy:
    """Passes everything on, but for what :meth:`spoil` says; keeps what it has ``seen`` and ``spoiled``."""

    upstream: str
    port: int = 0
    seen: list[tuple[str, str]] = field(default_factory=list)
    spoiled: list[tuple[str, str]] = field(default_factory=list)
    _rules: list[Spoiling] = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def spoil(self, method, part, way, *, times=1, after=0):
        """Spoil the next ``times`` requests in this ``way``, once ``after`` of them have passed."""
        assert way in WAYS
        self._rules.append(Spoiling(method, part, way, times, after))

    def heal(self):
        """Spoil nothing any more, and forget what was."""
        for kept in (self.seen, self.spoiled, self._rules):
            kept.clear()

    def _way(self, method, target):
        for rule in self._rules:
            if rule.method == method and rule.part in target and rule.times:
                if rule.after:
                    rule.after -= 1
                    continue
                rule.times -= 1
                self.spoiled.append((method, target))
                return rule.way
        return ""

    async def handle(self, reader, writer):
        """One request, after which the connection ends."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head, method, target, length = await _request_head(reader, writer)
            self.seen.append((method, target))
            way = self._way(method, target)
            if way == "reset":
                await reader.readexactly(length // 2)
                writer.transport.abort()
            elif way == "stall":
                await reader.readexactly(length)
                await reader.read()  # returns when the client goes away
            else:
                body = await reader.readexactly(length)
                await self._pass_on(head, method, target, body, way, writer)
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async def _pass_on(self, head, method, target, body, way, writer):
        if way in _CODES:
            error = f"<Error><Code>{_CODES[way]}</Code><Message>no</Message></Error>".encode()
            error = b"" if method == "HEAD" else error
            line = f"HTTP/1.1 {way} No\r\nContent-Length: {len(error)}\r\nConnection: close\r\n\r\n"
            writer.write(line.encode() + error)
            await writer.drain()
            return
        answer = await self._asked(head, body)
        top, _, content = answer.partition(b"\r\n\r\n")
        if way == "lose":
            writer.transport.abort()
            return
        if way in ("cut", "short"):
            content = content[: len(content) // 2]
        if way == "short":
            top = _without(top, b"content-length") + b"\r\nContent-Length: %d" % len(content)
        writer.write(_without(top, b"connection") + b"\r\nConnection: close\r\n\r\n" + content)
        await writer.drain()

    async def _asked(self, head, body):
        place = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(_without(head, b"connection") + b"\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        return answer


async def _request_head(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    assert b"transfer-encoding" not in fields
    if b"expect" in fields:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        head = _without(head, b"expect")
    return head, method, target, int(fields.get(b"content-length", 0))


def _without(head, name):
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.lower().startswith(name + b":"))


@contextmanager
def proxy_before(upstream):
    """A proxy in front of the URL ``upstream``, for the length of the block."""
    proxy, loop, ready = FaultyProxy(upstream), asyncio.new_event_loop(), threading.Event()

    async def serve():
        server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, limit=1 << 20)
        proxy.port = server.sockets[0].getsockname()[1]
        ready.set()

    def run():
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
