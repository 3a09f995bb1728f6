"""A real redis-server on loopback and on a unix socket, which a test can kill, hang and start again."""

from __future__ import annotations

import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ports import free_port
from tests.waiting import wait_until

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
        self.url = f"redis://127.0.0.1:{self.port}"
        self.socket = directory / "redis.sock"
        own = f"--bind 127.0.0.1 --port {self.port} --unixsocket {self.socket} --dir {directory} --logfile redis.log"
        self._command = ["redis-server", *own.split(), "--save", "", *options]
        self._process: subprocess.Popen[bytes]
        self.admin: Any = redis.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.admin.close()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None
        with suppress(redis.ConnectionError):
            return bool(self.admin.ping())
        return False

    def kill(self) -> None:
        """End it without a farewell."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Let it hang: it keeps its connections, takes new ones and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def age(self, microseconds: int) -> None:
        """Make everything older, which is to a window what passing time is."""
        self.admin.eval(_AGE_ALL, 0, microseconds)


class Way:
    """A way to the server on which answers never come or are wrong. The server has heard the questions."""

    def __init__(self, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}"
        self._held: list[bytes] = []
        self._spoiled: list[bytes] = []

    def hold(self, about: bytes) -> None:
        """Keep the answer to the next question with these bytes until the asker has hung up."""
        self._held.append(about)

    def spoil(self, about: bytes, times: int = 1) -> None:
        """Make errors of the answers to the next questions with these bytes."""
        self._spoiled += [about] * times

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to hold or to spoil."""
        return not self._held and not self._spoiled

    def pass_on(self, asker: socket.socket, server: socket.socket) -> None:
        """Pass questions and answers on, until the asker has hung up."""
        while question := asker.recv(65536):
            server.sendall(question)
            answer = server.recv(65536)
            if _take(self._held, question):
                asker.recv(1)
                return
            asker.sendall(b"-OOM command not allowed\r\n" if _take(self._spoiled, question) else answer)


def _take(abouts: list[bytes], question: bytes) -> bool:
    """Whether the question is about one of these, which is then used up."""
    about = next((about for about in abouts if about in question), None)
    if about is not None:
        abouts.remove(about)
    return about is not None


@contextmanager
def way_to(server: RedisServer) -> Iterator[Way]:
    """A way to the server on which the test decides when an answer comes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", server.port)) as onward, suppress(OSError):
                way.pass_on(self.request, onward)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as ways:
        ways.daemon_threads = True
        way = Way(ways.server_address[1])
        # Its end is noticed after one interval, which is half a second unless it is said.
        threading.Thread(target=ways.serve_forever, args=[0.01], daemon=True).start()
        try:
            yield way
        finally:
            ways.shutdown()
