"""An S3-compatible server for tests: moto's, in a process of its own, with a bucket; and a proxy that makes it fail."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def s3_server() -> Iterator[int]:
    """The port of a server that has an empty `bucket`; it ends with the test."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            made = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
            urllib.request.urlopen(made, timeout=30).close()
            yield port
        finally:
            process.kill()


def location(port: int, path: str) -> str:
    """A location in the bucket of that server, as users write it."""
    return f"s3://id:secret@bucket/{path}?region=eu-north-1&endpoint_override=127.0.0.1:{port}&scheme=http"


class _Proxy(ThreadingHTTPServer):
    """Passes requests on, and answers 503 to some of them."""

    def __init__(self, port: int, every: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.every = port, every
        self.failed: list[int] = []  # the numbers of the requests that it failed
        self._count = itertools.count(1)
        self._turn = threading.Lock()

    def next_number(self) -> int:
        with self._turn:
            number = next(self._count)
            if number % self.every == 0:
                self.failed.append(number)
            return number


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy

    def handle_any(self) -> None:
        number, every = self.server.next_number(), self.server.every
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # Of the requests that fail, every second one is carried out, and only its answer is lost.
        if number % (2 * every) != every:
            status, headers, content = self._passed_on(body)
        if number % every == 0:
            status, headers, content = 503, {}, b"<Error><Code>SlowDown</Code></Error>"
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "server", "date", "content-length"):
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", headers.get("Content-Length", "0") if is_head else str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    def _passed_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        url = f"http://127.0.0.1:{self.server.port}{self.path}"
        sent = urllib.request.Request(url, body or None, method=self.command)
        sent.add_header("Content-Type", "application/octet-stream")  # by default it would be a form's
        for name, value in self.headers.items():
            if name.lower() not in ("host", "content-length", "connection"):
                sent.add_header(name, value)
        try:
            with urllib.request.urlopen(sent, timeout=30) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - names that the class asks for

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def failing_proxy(port: int, *, every: int) -> Iterator[tuple[int, list[int]]]:
    """The port of a proxy in front of a server that fails every n-th request, and the numbers of those."""
    with _Proxy(port, every) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], server.failed
        finally:
            server.shutdown()
            thread.join()
