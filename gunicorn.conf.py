"""The settings of gunicorn, all from the environment. gunicorn reads this file by itself."""

import gc
import os
import sys

from gunicorn.arbiter import Arbiter
from gunicorn.sock import TCP6Socket, TCPSocket, UnixSocket
from gunicorn.systemd import listen_fds

from app.logs import logging_config
from app.mail.spool import require_mail_dir
from app.ratelimit.storage import create_storage
from app.settings import Settings, SettingsError

settings = Settings.from_env(os.environ)
create_storage(settings)  # A storage that cannot be used stops the start here, before any worker.

bind = settings.bind
workers = settings.workers
threads = settings.threads
worker_class = "app.worker.EnvelopeWorker"
logger_class = "app.worker.ServerLogger"
wsgi_app = "wsgi:app"
logconfig_dict = logging_config(settings)
loglevel = settings.log_level

# A hand-over to the mail server may finish after the service is told to stop.
graceful_timeout = int(settings.smtp_timeout) + 10
keepalive = 75

# Only the app believes a proxy, as TRUSTED_PROXIES says. gunicorn itself would trust 127.0.0.1 and every peer on a unix
# socket.
forwarded_allow_ips = ""
secure_scheme_headers = {}
forwarder_headers = ""

# gunicorn would drop fields with an underscore in their name and not count them. One request may hold 200,000 of them,
# which takes seven seconds to read. So such a request is refused. nginx never passes such a field on.
header_map = "refuse"

# Each service on a machine would have a control socket, and each would have to be protected.
control_socket_disable = True


def on_starting(server: Arbiter) -> None:
    """Stop the start when MAIL_DIR takes no message, or when nobody can listen at BIND.

    A reload goes on: mail is delivered even with a full disk.
    """
    require_mail_dir(settings.mail_dir)
    # The sockets that gunicorn inherits, and those of its own options --bind and --reuse-port, are not BIND's.
    inherits = server.master_pid or listen_fds(unset_environment=False)
    if not inherits and not server.cfg.reuse_port and server.cfg.bind == [bind]:
        server.LISTENERS = [listen(server)]


def listen(server: Arbiter) -> TCPSocket | UnixSocket:
    """The socket at BIND, which gunicorn then uses; raises SettingsError. gunicorn itself would try for five seconds.

    It stays open. A connection that it took would be lost with it, and nginx does not send a POST again.
    """
    address = server.address[0]
    kind = UnixSocket if isinstance(address, str) else TCP6Socket if ":" in address[0] else TCPSocket
    try:
        return kind(address, server.cfg, server.log)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        example = "127.0.0.1:8001" if bind.endswith(":8000") else "127.0.0.1:8000"
        raise SettingsError([f"BIND={bind!r}: {reason}: set BIND to another address, such as {example}"]) from error


def post_worker_init(worker: object) -> None:
    """Start the storage of the limits and the mail checks, and wait a second at most for each."""
    worker.background.start(wait=1)
    # A request needs the interpreter's lock three times, and while another computes it waits this long for each.
    sys.setswitchinterval(0.001)
    # What is loaded stays. Looking through it for garbage would hold the lock for as long as a large request does.
    gc.freeze()


def worker_exit(_server: object, worker: object) -> None:
    """Close the connections to the other servers."""
    background = getattr(worker, "background", None)  # None when the app could not be made
    if background is not None:
        background.stop()
