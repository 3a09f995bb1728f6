"""The settings of gunicorn, all from the environment. gunicorn reads this file by itself."""

import gc
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

from gunicorn.arbiter import Arbiter
from gunicorn.sock import TCP6Socket, TCPSocket, UnixSocket
from gunicorn.systemd import listen_fds
from gunicorn.util import parse_address

from app.logs import logging_config
from app.mail.spool import require_mail_dir
from app.metrics import require_metrics
from app.ratelimit.storage import create_storage
from app.settings import Settings, SettingsError
from app.worker import EnvelopeWorker

settings = Settings.from_env(os.environ)
create_storage(settings)  # A storage that cannot be used stops the start here, before any worker.
require_metrics(settings)

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

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - mkdtemp makes a folder of its own in it

metrics_listeners: list[TCPSocket] = []
"""The socket at METRICS_BIND from the first hook to the second."""

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
    # Python prints a fault that stops the start, past the log. What the log has so far comes before it.
    for handler in logging.getLogger().handlers:
        handler.flush()
    require_mail_dir(settings.mail_dir)
    # The sockets that gunicorn inherits, and those of its own options --bind and --reuse-port, are not BIND's.
    inherits = server.master_pid or listen_fds(unset_environment=False)
    if not inherits and not server.cfg.reuse_port and server.cfg.bind == [bind]:
        server.LISTENERS = [listen(server, "BIND", bind)]
    if settings.metrics_bind:
        if server.cfg.preload_app:  # prometheus_client looks for the directory below when it is imported, and only then
            raise SettingsError(["METRICS_BIND is set: gunicorn counts nothing with --preload"])
        if not server.master_pid:
            metrics_listeners.append(listen(server, "METRICS_BIND", settings.metrics_bind))
        # The workers leave their numbers here, in memory. systemd removes its directory even if this process is killed.
        memory = os.environ.get("RUNTIME_DIRECTORY", MEMORY)
        try:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="metrics-", dir=memory)
        except OSError as error:
            raise SettingsError([f"METRICS_BIND is set: its files cannot be in {memory}: {error.strerror}"]) from error


def when_ready(server: Arbiter) -> None:
    """Add the socket of the metrics to gunicorn's own, which it passes on to its workers and, at USR2, to its heir."""
    server.LISTENERS += metrics_listeners
    for listener in metrics_listeners:
        server.log.info("The metrics are at: %s", listener)


def post_fork(server: Arbiter, worker: EnvelopeWorker) -> None:
    """Take the socket of the metrics, always the last one, from those on which the worker accepts requests.

    A worker without room for its numbers has no metrics: the service matters more.
    """
    if settings.metrics_bind:
        from app.metrics.files import make  # noqa: PLC0415 - needs an optional dependency

        worker.metrics_listener = server.LISTENERS[-1]
        # With --reuse-port the worker has made the others by itself.
        worker.sockets = [listener for listener in worker.sockets if listener is not worker.metrics_listener]
        directory = metrics_directory()
        try:
            make(directory, worker.pid)
        except OSError as error:
            server.log.error("this worker has no metrics until the next start: %s: %s", directory, error.strerror)
            del os.environ["METRICS_BIND"]  # the app does not see it


def child_exit(server: Arbiter, _worker: EnvelopeWorker) -> None:
    """Forget the state of a worker that has ended. What it has counted stays."""
    if settings.metrics_bind:
        from app.metrics.files import forget  # noqa: PLC0415 - needs an optional dependency

        forget(metrics_directory(), server.WORKERS)


def on_exit(_server: Arbiter) -> None:
    """Remove the files of the metrics."""
    if settings.metrics_bind:
        shutil.rmtree(metrics_directory(), ignore_errors=True)


def metrics_directory() -> Path:
    """The directory in which the workers leave their numbers."""
    return Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def listen(server: Arbiter, name: str, value: str) -> TCPSocket | UnixSocket:
    """The socket at an address, which gunicorn then uses; raises SettingsError. gunicorn would try for five seconds.

    It stays open. A connection that it took would be lost with it, and nginx does not send a POST again.
    """
    address = parse_address(value)
    kind = UnixSocket if isinstance(address, str) else TCP6Socket if ":" in address[0] else TCPSocket
    try:
        return kind(address, server.cfg, server.log)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        port = 8000 if name == "BIND" else 9110
        example = f"127.0.0.1:{port + 1 if value.endswith(f':{port}') else port}"
        raise SettingsError(
            [f"{name}={value!r}: {reason}: set {name} to another address, such as {example}"]
        ) from error


def post_worker_init(worker: EnvelopeWorker) -> None:
    """Start the storage of the limits and the mail checks, and wait a second at most for each."""
    worker.background.start(wait=1)
    if settings.metrics_bind and worker.background.exporter:
        worker.background.exporter.start(worker.metrics_listener, metrics_directory())
    # A request needs the interpreter's lock three times, and while another computes it waits this long for each.
    sys.setswitchinterval(0.001)
    # What is loaded stays. Looking through it for garbage would hold the lock for as long as a large request does.
    gc.freeze()


def worker_exit(_server: Arbiter, worker: EnvelopeWorker) -> None:
    """Close the connections to the other servers."""
    background = getattr(worker, "background", None)  # None when the app could not be made
    if background is not None:
        background.stop()
