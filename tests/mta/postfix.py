"""Debian's Postfix, in folders and on a loopback port of its own; the system's one is left alone."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

from tests.mail.server import authority
from tests.messages import parse
from tests.ports import free_port
from tests.waiting import wait_until

HOST = "127.0.0.1"
PATIENCE = 60
"""Seconds for anything to come about. It must come by then, however busy the machine is."""

OWNER = "postfix"
SALES = "ventas@example.com"
"""The recipient whom it knows, with a Maildir. Every other address of the domain is refused."""

MASTER = """
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

TROUBLE = re.compile(
    r"(?!.* (clock|time stamps))"  # where a second turns, a file can be of the next one
    r".*(warning|reject|fatal|panic|lost|timeout|improper|errors|bare |non-SMTP|=deferred|=bounced"
    r"|disconnect .*=\d+/)"  # a command that was refused is counted after a slash
)
"""The lines that complain."""


@dataclass(frozen=True)
class Postfix:
    directory: Path
    port: int

    @property
    def environ(self) -> dict[str, str]:
        """The settings under which the service reaches it."""
        return {
            "SMTP_HOST": HOST,
            "SMTP_PORT": str(self.port),
            "SMTP_SECURITY": "starttls",
            "SMTP_TIMEOUT": str(PATIENCE),
            "SALES_EMAIL": SALES,
            "MAIL_FROM": "web@example.com",
        }

    @property
    def log(self) -> str:
        return (self.directory / "maillog").read_text()

    def configure(self, **parameters: str) -> None:
        """Write its configuration; the parameters are those of main.cf."""
        self.directory.chmod(0o711)
        for name in ("config", "queue", "data", "mail"):
            (self.directory / name).mkdir()
        (self.directory / "maillog").touch()
        for name in ("data", "mail", "maillog"):
            shutil.chown(self.directory / name, OWNER)
        authority().issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(self.directory / "tls.pem")
        owner = pwd.getpwnam(OWNER)
        parameters = {
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
            "virtual_mailbox_domains": "example.com",
            "virtual_mailbox_maps": f"inline:{{{SALES}=ventas/}}",
            "virtual_mailbox_base": str(self.directory / "mail"),
            "virtual_uid_maps": f"static:{owner.pw_uid}",
            "virtual_gid_maps": f"static:{owner.pw_gid}",
            "smtpd_tls_security_level": "may",
            "smtpd_tls_chain_files": str(self.directory / "tls.pem"),
            "smtpd_tls_received_header": "yes",
            # Stricter than Debian 12: newer releases of Postfix have the first by themselves.
            "smtpd_forbid_unauth_pipelining": "yes",
            "smtpd_forbid_bare_newline": "reject",
            "smtpd_forbid_bare_newline_exclusions": "",
        } | parameters
        lines = [f"{name} = {value}\n" for name, value in parameters.items()]
        (self.directory / "config" / "main.cf").write_text("".join(lines))
        (self.directory / "config" / "master.cf").write_text(MASTER.format(port=self.port))

    def run(self, command: str) -> None:
        """Start, stop or reload this instance, as the operator does."""
        postfix = ["postfix", "-c", str(self.directory / "config"), command]
        subprocess.run(postfix, capture_output=True, timeout=PATIENCE, check=True)

    def queue(self) -> list[Path]:
        """The messages that it has taken and not yet delivered. Only a whole one can be executed, and a rest stays."""
        return [
            path
            for name in ("incoming", "active", "deferred")
            for path in (self.directory / "queue" / name).rglob("*")
            if path.is_file() and os.access(path, os.X_OK)
        ]

    def delivered(self) -> list[EmailMessage]:
        """The messages in the mailbox, once Postfix has nothing left to deliver."""
        wait_until(lambda: not self.queue(), seconds=PATIENCE)
        files = (self.directory / "mail" / "ventas" / "new").glob("*")
        return [parse(path.read_bytes()) for path in files]


@contextmanager
def running(*allowed: str, **parameters: str) -> Iterator[Postfix]:
    """A Postfix that has complained of nothing but what is allowed, and no process of which is left afterwards."""
    # Not in a directory of pytest's: Postfix gives up root, and nobody but their owner can enter those.
    with tempfile.TemporaryDirectory(prefix="postfix-") as name:
        postfix = Postfix(Path(name), free_port())
        postfix.configure(**parameters)
        postfix.run("start")
        try:
            yield postfix
        finally:
            postfix.run("stop")
            print(postfix.log)  # noqa: T201 - pytest shows it with a test that has failed
        found = filter(TROUBLE.match, postfix.log.splitlines())
    assert [line for line in found if not any(re.search(pattern, line) for pattern in allowed)] == []
