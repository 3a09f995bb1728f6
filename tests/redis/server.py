"""A real redis-server on loopback and on a unix socket, which a test can kill, hang and start again."""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import redis
import trustme
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ports import free_port

BOOT_SECONDS = 20

_AGE_ALL = """
for _, key in ipairs(redis.call('KEYS', '*')) do
    for index, stamp in ipairs(redis.call('LRANGE', key, 0, -1)) do
        redis.call('LSET', key, index - 1, stamp - ARGV[1])
    end
    redis.call('PEXPIREAT', key, redis.call('PEXPIRETIME', key) - math.floor(ARGV[1] / 1000))
end
"""


class RedisServer:
    """Keeps nothing on disk; stays at the same port and socket when it is started again."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.port = free_port()
        self.socket = directory / "redis.sock"
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.admin: Any = redis.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.admin.close()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        options = {
            "--bind": "127.0.0.1",
            "--port": str(self.port),
            "--unixsocket": str(self.socket),
            "--dir": str(self._directory),
            "--save": "",
        }
        command = ["redis-server", *itertools.chain.from_iterable(options.items()), *self._options]
        with (self._directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                self.admin.ping()
            except redis.ConnectionError:
                assert self._process.poll() is None, (self._directory / "redis.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        """End it without a farewell."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Let it hang: it keeps its connections, takes new ones and answers nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def age(self, microseconds: int) -> None:
        """Make everything older, which is to a window what passing time is."""
        self.admin.eval(_AGE_ALL, 0, microseconds)


class Way:
    """A way to the server on which answers can be late."""

    def __init__(self, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}"
        self._held: list[bytes] = []
        self._released = threading.Event()

    def hold(self, about: bytes, times: int = 1) -> None:
        """Keep the answers to the next questions with these bytes until they are released or the asker has hung up."""
        self._held += [about] * times

    def release(self) -> None:
        """Let the answers go that are kept."""
        self._released.set()

    @property
    def all_held(self) -> bool:
        """Whether nothing is left to hold."""
        return not self._held

    def _hung_up_while_held(self, question: bytes, asker: socket.socket) -> bool:
        """Wait while the answer is held; true when the asker has hung up meanwhile."""
        about = next((about for about in self._held if about in question), None)
        if about is None:
            return False
        self._held.remove(about)
        while not self._released.is_set():
            if select.select([asker], [], [], 0.01)[0]:
                return True
        return False


@contextmanager
def way_to(server: RedisServer) -> Iterator[Way]:
    """A way to the server on which the test decides when an answer comes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", server.port)) as onward, suppress(OSError):
                while question := self.request.recv(65536):
                    onward.sendall(question)
                    answer = onward.recv(65536)
                    if way._hung_up_while_held(question, self.request):
                        return
                    self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as ways:
        ways.daemon_threads = True
        way = Way(ways.server_address[1])
        # Its end is noticed after one interval, which is half a second unless it is said.
        threading.Thread(target=ways.serve_forever, args=[0.01], daemon=True).start()
        try:
            yield way
        finally:
            ways.shutdown()


def tls_options(directory: Path) -> tuple[list[str], Path]:
    """Options for a server that speaks TLS alone on its port 0, and the file of the authority to trust."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    ca, key, chain = directory / "ca.pem", directory / "key.pem", directory / "chain.pem"
    authority.cert_pem.write_to_path(str(ca))
    certificate.private_key_pem.write_to_path(str(key))
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    options = ["--tls-cert-file", str(chain), "--tls-key-file", str(key), "--tls-auth-clients", "no"]
    return options, ca
