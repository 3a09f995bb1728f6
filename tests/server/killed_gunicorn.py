"""The configuration of hurried_gunicorn.py in a service of which one worker kills itself in the middle of a hand-over.

KILL_AT says where: for a "form" or a "kept" message, "before", "half" or "after" a step, such as "form before store".
It happens once, as soon as KILL_FILE is there.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from socket import MSG_PEEK, socket
from typing import Any
from unittest.mock import patch

from flask import has_request_context

KILL_AT, KILL_FILE = os.environ["KILL_AT"], os.environ["KILL_FILE"]

remove = os.unlink


class Thread(threading.local):
    step = ""
    """The last step that it has made. What a rename or a reply is about depends on it."""


thread = Thread()


def kill(moment: str) -> None:
    message = "form" if has_request_context() else "kept"
    if f"{message} {moment}" == KILL_AT:
        with suppress(FileNotFoundError):
            remove(KILL_FILE)  # only one thread of all processes can do this
            os.kill(os.getpid(), signal.SIGKILL)


def step_of_sending(_: socket, data: bytes) -> str | None:
    if data.endswith(b"\r\n.\r\n"):
        return "content"
    if data.endswith(b"DATA\r\n"):
        return "DATA"  # with pipelining, the others come before it
    return "MAIL" if data.startswith(b"MAIL") else None


STEPS: dict[tuple[Any, str], Callable[..., str | None]] = {
    (os, "open"): lambda _, flags, *__: "create" if flags & os.O_EXCL else None,
    (os, "write"): lambda *_: "write",
    (os, "fsync"): lambda *_: "fsync",
    (os, "rename"): lambda *_: {"MAIL": "note", "DATA": "mark"}.get(thread.step, "store"),
    (os, "unlink"): lambda *_: "unlink",
    (socket, "sendall"): step_of_sending,
    (socket, "recv"): lambda *_: "reply" if thread.step == "content" else None,
}


def killing(call: Callable[..., Any], step_of: Callable[..., str | None]) -> Callable[..., Any]:
    def make_step(*args: Any, **options: Any) -> Any:
        step = step_of(*args)
        if step is None:
            return call(*args, **options)
        if step == "reply":
            call(args[0], 1, MSG_PEEK)  # so that the mail server has answered
        kill(f"before {step}")
        if step == "content":
            connection, data = args
            call(connection, data[: len(data) // 2])
            kill("half content")
            args = connection, data[len(data) // 2 :]
        result = call(*args, **options)
        if step != "unlink":  # the reply stays the reply when a message is removed too early
            thread.step = step
        kill(f"after {step}")
        return result

    return make_step


for (owner, name), its_step in STEPS.items():
    patch.object(owner, name, killing(getattr(owner, name), its_step)).start()

globals().update(runpy.run_path("tests/server/hurried_gunicorn.py"))
