"""Debian's Postfix, in folders and on a loopback port of its own; the system's one is left alone."""

from __future__ import annotations

import email
import email.policy
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Self

from tests.mail.server import authority
from tests.ports import reserve_port

HOST = "127.0.0.1"
PATIENCE = 60
"""Seconds for anything to come about. It must come by then, however busy the machine is."""

MAILBOXES = {
    "ventas@example.com": "ventas/",
    "ventas@xn--bcher-kva.example": "ventas/",
    "web@example.com": "web/",
}
"""The recipients whom it knows, each with a Maildir. Every other address of their domains is refused."""

_OWNER = "postfix"

_MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
pickup    unix  n - n 60 1 pickup
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
tlsmgr    unix  - - n 1000? 1 tlsmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
flush     unix  n - n 1000? 0 flush
showq     unix  n - n - - showq
proxymap  unix  - - n - - proxymap
error     unix  - - n - - error
retry     unix  - - n - - error
smtp      unix  - - n - - smtp
virtual   unix  - n n - - virtual
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
postlog   unix-dgram n - n - 1 postlogd
"""
"""Debian's services without chroot, and without those that give mail to this machine's users or their programs."""

_TROUBLE = re.compile(
    r"(?!.* (clock|time stamps))"  # where a second turns, a file can be of the next one
    r".*(warning|reject|fatal|panic|lost|timeout|improper|errors|bare |non-SMTP|=deferred|=bounced"
    r"|disconnect .*=\d+/)"  # a command that was refused is counted after a slash
)
"""The lines that complain."""

CLOSED_WHILE_IDLE = r"smtpd\[\d+\]: timeout after EHLO from "
"""Postfix ends a connection that was logged in to and never used."""


class Postfix:
    """Runs from ``with`` on, and no process of it is left afterwards. ``parameters`` are those of main.cf."""

    def __init__(self, **parameters: str) -> None:
        self.port = reserve_port(self)
        # Not in a directory of pytest's: Postfix gives up root, and nobody but their owner can enter those.
        self._temporary = tempfile.TemporaryDirectory(prefix="postfix-")
        self.directory = Path(self._temporary.name)
        self.config = self.directory / "config"
        self._master = 0
        self._parameters = self._defaults() | parameters

    def _defaults(self) -> dict[str, str]:
        owner = pwd.getpwnam(_OWNER)
        return {
            "compatibility_level": "3.6",
            "queue_directory": str(self.directory / "queue"),
            "data_directory": str(self.directory / "data"),
            "maillog_file": str(self.directory / "maillog"),
            "maillog_file_prefixes": str(self.directory),
            "myhostname": "mail.example.com",
            "inet_interfaces": "loopback-only",
            "inet_protocols": "ipv4",
            "mynetworks": "127.0.0.0/8",
            "smtpd_peername_lookup": "no",
            # Nothing goes to this machine's users or to another machine, not even a note to the postmaster.
            "mydestination": "",
            "alias_maps": "",
            "local_recipient_maps": "",
            "default_transport": "error:5.1.2 there is no way out of the tests",
            "notify_classes": "",
            "virtual_mailbox_domains": ", ".join({address.partition("@")[2] for address in MAILBOXES}),
            "virtual_mailbox_maps": "inline:{" + ", ".join("=".join(pair) for pair in MAILBOXES.items()) + "}",
            "virtual_mailbox_base": str(self.directory / "mail"),
            "virtual_uid_maps": f"static:{owner.pw_uid}",
            "virtual_gid_maps": f"static:{owner.pw_gid}",
            "smtpd_tls_security_level": "may",
            "smtpd_tls_chain_files": str(self.directory / "tls.pem"),
            "smtpd_tls_received_header": "yes",
            "smtpd_tls_loglevel": "1",
            # Stricter than Debian 12: newer releases of Postfix have the first by themselves.
            "smtpd_forbid_unauth_pipelining": "yes",
            "smtpd_forbid_bare_newline": "reject",
            "smtpd_forbid_bare_newline_exclusions": "",
        }

    @property
    def environ(self) -> dict[str, str]:
        """The settings under which the service reaches it."""
        return {
            "SMTP_HOST": HOST,
            "SMTP_PORT": str(self.port),
            "SMTP_SECURITY": "starttls",
            "SMTP_TIMEOUT": str(PATIENCE),
            "SALES_EMAIL": "ventas@example.com",
            "MAIL_FROM": "web@example.com",
        }

    @property
    def log(self) -> str:
        return (self.directory / "maillog").read_text()

    def __enter__(self) -> Self:
        try:
            self._write()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        with suppress(FileNotFoundError):
            print(self.log)  # noqa: T201 - pytest shows it with a test that has failed
        self._temporary.cleanup()

    def _write(self) -> None:
        self.directory.chmod(0o711)
        for name in ("config", "queue", "data", "mail"):
            (self.directory / name).mkdir()
        (self.directory / "maillog").touch()
        for name in ("data", "mail", "maillog"):
            shutil.chown(self.directory / name, _OWNER)
        authority().issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(self.directory / "tls.pem")
        (self.config / "main.cf").write_text("".join(f"{name} = {value}\n" for name, value in self._parameters.items()))
        (self.config / "master.cf").write_text(_MASTER.format(port=self.port))

    def _start(self) -> None:
        self.run("postfix", "start")
        self._master = self._read_master()

    def _read_master(self) -> int:
        return int((self.directory / "queue" / "pid" / "master.pid").read_text())

    def _stop(self) -> None:
        with suppress(FileNotFoundError, ValueError):
            self._master = self._read_master()
        if not self._master:
            return
        # The master tells the others, and none of them has anything that must be finished.
        for farewell in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + PATIENCE / 2
            if self.processes():
                os.killpg(self._master, farewell)
            while self.processes() and time.monotonic() < deadline:
                time.sleep(0.01)
        assert not self.processes()

    def processes(self) -> dict[int, str]:
        """The name of each process, which all belong to the group that the master has made."""
        found = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                number, _, rest = status.read_text().partition(" (")
                name, _, fields = rest.rpartition(") ")
                state, _, group, *_ = fields.split()
                if int(group) == self._master and state not in "ZX":  # init may take its time to bury the dead
                    found[int(number)] = name
        return found

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of Postfix's own commands on this instance."""
        result = subprocess.run(
            [program, "-c", str(self.config), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert result.returncode == 0, result
        return result

    def reload(self, **parameters: str) -> None:
        """Change main.cf; returns once every new connection meets the change. Open ones never do."""
        if parameters:
            self.run("postconf", "-e", *(f"{name}={value}" for name, value in parameters.items()))
        reloads, before = self.log.count("reload -- version"), self.processes()
        self.run("postfix", "reload")
        self.wait_until(lambda: self.log.count("reload -- version") > reloads)
        idle = {number for number, name in before.items() if name == "smtpd" and not self._has_a_client(number)}
        self.wait_until(lambda: not self.processes().keys() & idle)

    def restart(self) -> None:
        self._stop()
        self._start()

    def _has_a_client(self, number: int) -> bool:
        log = self.log
        return log.count(f"smtpd[{number}]: connect from") > log.count(f"smtpd[{number}]: disconnect from")

    def wait_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "see the log below"
            time.sleep(0.02)

    def wait_for(self, pattern: str) -> None:
        self.wait_until(lambda: re.search(pattern, self.log))

    def wait_until_all_have_left(self) -> None:
        """Return once each connection has ended, and the log says so."""
        self.wait_until(lambda: not any(map(self._has_a_client, self.processes())))

    def queue(self) -> list[Path]:
        """The messages that it has taken and not yet delivered. Only a whole one can be executed, and a rest stays."""
        return [
            path
            for name in ("incoming", "active", "deferred")
            for path in (self.directory / "queue" / name).rglob("*")
            if path.is_file() and os.access(path, os.X_OK)
        ]

    def delivered(self, mailbox: str = "ventas") -> list[EmailMessage]:
        """The messages in a mailbox, once Postfix has nothing left to deliver."""
        self.wait_until(lambda: not self.queue())
        return [
            email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
            for path in (self.directory / "mail" / mailbox / "new").glob("*")
        ]


@contextmanager
def running(*allowed: str, **parameters: str) -> Iterator[Postfix]:
    """A Postfix that, after its last client has left, has complained of nothing but what is allowed."""
    with Postfix(**parameters) as postfix:
        yield postfix
        postfix.wait_until_all_have_left()
        found = filter(_TROUBLE.match, postfix.log.splitlines())
    assert [line for line in found if not any(re.search(pattern, line) for pattern in allowed)] == []
