"""A real redis-server on loopback and on a unix socket, which a test can kill, hang and start again."""

import signal
import subprocess
from contextlib import suppress
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
        self.bind = "127.0.0.1"
        self.socket = directory / "redis.sock"
        self._options = [*f"--unixsocket {self.socket} --dir {directory} --logfile redis.log".split(), *options]
        self._process: subprocess.Popen[bytes]
        self.admin: Any = redis.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.admin.close()

    def start(self) -> None:
        address = ("--bind", self.bind, "--port", str(self.port))
        self._process = subprocess.Popen(["redis-server", *address, *self._options, "--save", ""])
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
