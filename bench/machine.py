"""The machine that measures: its name, its cores, and the processor time and memory of a process."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = _CORES[0]
LOAD_CORE = _CORES[-1]
"""Load generator, mail server and nginx run here, so that the measured server has a core of its own."""

_LOAD_BEFORE = os.getloadavg()[0]

_PACKAGES = ("flask", "werkzeug", "gunicorn", "flask-cors", "flask-limiter", "limits", "fastapi", "slowapi", "uvicorn")


def pinned(core: int) -> list[str]:
    """The beginning of a command line that keeps the command on one core."""
    return ["taskset", "--cpu-list", str(core)]


def cpu_seconds(pid: int) -> float:
    """The processor time of a process and its living children, to the nanosecond, which /proc/PID/stat is not."""
    # clock_getcpuclockid(3) makes the clock of another process like this.
    return sum(time.clock_gettime(~process << 3 | 2) for process in (pid, *children(pid)))


def children(pid: int) -> Iterator[int]:
    """The processes that this one has started, and those that they have started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from children(int(child))


def memory_mb(pid: int) -> float:
    """The resident memory of one process."""
    match = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(match[1]) / 1024 if match else 0.0


def description() -> list[str]:
    """The lines of the document about the machine and the versions of all parts."""
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    php = next(Path("/usr/sbin").glob("php-fpm*"), None)
    programs = [["nginx", "-v"], ["wrk", "-v"], *([[str(php), "-v"]] if php else [])]
    return [
        f"{len(_CORES)} cores of {model[1] if model else platform.machine()}, Linux {platform.release()}",
        f"load average of the minute before: {_LOAD_BEFORE:.1f}",
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
        ", ".join(_first_line(command) for command in programs),
    ]


def _first_line(command: list[str]) -> str:
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    return re.sub(r"^nginx version: | \(.*| \[.*", "", said.splitlines()[0]).strip()
