"""`make watch-demo` in a shorter time: the figures show the outage and its end, and no message is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from docs.draw_watch import Curve, Span, Watch
from examples import watch_demo
from examples.watch_figures import STEP
from tests.server.gunicorn import BOOT_SECONDS, PATIENCE, ROOT

HURRIED = {"GUNICORN_CMD_ARGS": "--config tests/server/hurried_gunicorn.py", "RETRY_SECONDS": "3600"}
SECONDS = 24


def curve(watch: Watch, panel: str, name: str) -> Curve:
    """A curve by its name, in the panel whose title begins so."""
    (curves,) = (drawn.curves for drawn in watch.panels if drawn.title.startswith(panel))
    return next(curve for curve in curves if curve.name == name)


def band(watch: Watch, name: str) -> list[Span]:
    """The red spans of a band."""
    (spans,) = (drawn.spans for drawn in watch.bands if drawn.name == name)
    return [span for span in spans if span.kind == "firing"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> watch_demo.Result:
    return watch_demo.run(SECONDS, tmp_path_factory.mktemp("watch-demo"), **HURRIED)


def test_what_was_accepted_or_kept_arrived_once(result: watch_demo.Result) -> None:
    assert len(result.owed) > 10
    assert Counter(result.arrived) == Counter(set(result.owed))
    assert [answer.good for answer in result.watch.answers] == [False, True, True]


def test_the_figures_show_the_outage_and_its_end(result: watch_demo.Result) -> None:
    watch = result.watch
    begin, end = watch.outage[0].begin, watch.outage[-1].end
    (check,) = band(watch, "Mail check")
    (alert,) = band(watch, "Alert MailServerFails")
    failed, kept = curve(watch, "Forms per", "failed"), curve(watch, "Messages", "waiting")

    assert begin < check.begin < end + STEP
    # A point stands for what was seen in the second before it.
    assert check.begin < alert.begin < end + STEP
    assert end < alert.end < watch.length
    assert {value for second, value in failed.points if second < begin} == {0}
    assert failed.highest > 0
    assert kept.highest > 0
    assert curve(watch, "Retries", "delivered").points[-1][1] == curve(watch, "Retries", "delivered").highest > 0
    for panel in watch.panels:
        assert all(curve.points for curve in panel.curves), panel.title


def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    with log_file.open("wb") as log:
        demo = subprocess.Popen(
            [sys.executable, "-m", "examples.watch_demo"],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + BOOT_SECONDS
        while "Prometheus: " not in log_file.read_text():
            assert demo.poll() is None, log_file.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(members(demo.pid)) >= 4  # the demo, gunicorn with its worker, Prometheus
        # As a terminal does: to the process group in its foreground.
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(PATIENCE) == 128 + signal.SIGINT
    finally:
        left = members(demo.pid)
        for pid in left:
            os.kill(pid, signal.SIGKILL)

    assert left == []
    assert list(tmp_path.iterdir()) == [log_file]
    assert "Traceback" not in log_file.read_text()


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError):
            if os.getsid(int(entry.name)) == session:
                found.append(int(entry.name))
    return found
