"""The settings of gunicorn, all from the environment. gunicorn reads this file by itself."""

import gc
import logging
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.listeners import address_of, listener, naming, require_free
from app.logs import drop_exception_text, logging_config
from app.mail.spool import require_mail_dir
from app.metrics import require_metrics
from app.ratelimit.storage import create_storage
from app.release import RELEASE
from app.settings import Settings, SettingsError

settings = Settings.from_env(os.environ)
create_storage(settings)  # A storage that cannot be used stops the start here, before any worker.
require_metrics(settings)
if settings.metrics_bind:
    from app.metrics import files  # It needs an optional dependency.

bind = settings.bind
workers = settings.workers
threads = settings.threads
worker_class = "app.worker.EnvelopeWorker"
wsgi_app = "wsgi:app"
logconfig_dict = logging_config(settings)
loglevel = settings.log_level

# A hand-over to the mail server may finish after the service is told to stop.
graceful_timeout = int(settings.smtp_timeout) + 10

# One request, one connection. gunicorn closes a kept connection when much of a body was not read or when it stops, and
# a proxy would send the next request into it. Now each answer announces the close, whatever the proxy asks for.
keepalive = 0

FILES_OF_A_THREAD = 3
"""A connection to the mail server, one to Redis, and the file of a message."""

OTHER_FILES = 100
"""Those of gunicorn, of the log, of the mail checks, of the redelivery and of the metrics."""

# A worker that finds no descriptor for a connection ends at once, and with it all requests that it has in hand.
limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
free_files = 1000 if limit == resource.RLIM_INFINITY else limit - FILES_OF_A_THREAD * threads - OTHER_FILES
worker_connections = max(threads, min(1000, free_files))

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - mkdtemp makes a folder of its own in it

# A worker touches a file to show that it is alive. The disk of a container may be read-only.
worker_tmp_dir = MEMORY

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

logger = logging.getLogger("gunicorn.error")

if "--check-config" in sys.argv:  # gunicorn calls no hook then, and only what is wrong belongs on the operator's screen
    logging.disable()
    require_mail_dir(settings.mail_dir)


def on_starting(server: Any) -> None:
    """Stop the start when MAIL_DIR takes no message, or when nobody can listen at BIND or METRICS_BIND.

    A reload goes on: mail is delivered even with a full disk.
    """
    # Python prints a fault that stops the start, past the log. What the log has so far comes before it.
    for handler in logging.getLogger().handlers:
        handler.flush()
    require_mail_dir(settings.mail_dir)
    replaces = server.master_pid != 0  # the new program after USR2, beside which the old one goes on
    inherits = replaces or os.environ.get("LISTEN_PID") == str(os.getpid())  # sd_listen_fds(3)
    # gunicorn would try for five seconds. The addresses of its own option --bind are not BIND's.
    if not inherits and server.address == [address_of(bind)]:
        with naming("BIND", bind, example_port=8000):
            require_free(address_of(bind), shared=True)
    if settings.metrics_bind:
        if "app.metrics.recorder" in sys.modules:  # its numbers would be those of this process
            raise SettingsError(["METRICS_BIND is set: gunicorn counts nothing with --preload"])
        address = address_of(settings.metrics_bind)
        with naming("METRICS_BIND", settings.metrics_bind, example_port=9110):
            if not replaces:
                require_free(address, shared=False)
            listener(address)
        # The workers leave their numbers here, in memory. systemd removes its directory even if this process is killed.
        memory = os.environ.get("RUNTIME_DIRECTORY", MEMORY)
        try:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="metrics-", dir=memory)
        except OSError as error:
            raise SettingsError([f"METRICS_BIND is set: its files cannot be in {memory}: {error.strerror}"]) from error
        host, _, _ = settings.metrics_bind.rpartition(":")  # of port 0 the kernel makes another one
        logger.info("The metrics are at: http://%s:%d", host, listener(address).getsockname()[1])
    logger.info("Public web interface, release %s", RELEASE)


def post_fork(_server: Any, _worker: Any) -> None:
    """Give the worker files for its numbers. A worker without room for them has none: the service matters more."""
    if settings.metrics_bind:
        try:
            files.take_seat(metrics_directory())
        except OSError as error:
            logger.error("this worker has no metrics until the next start: %s: %s", metrics_directory(), error.strerror)
            del os.environ["METRICS_BIND"]  # the app does not see it


def child_exit(_server: Any, _worker: Any) -> None:
    """Forget the state of a worker that has ended. What it has counted stays."""
    if settings.metrics_bind:
        files.clear_free_seats(metrics_directory())


def on_exit(_server: Any) -> None:
    """Remove the files of the metrics."""
    if settings.metrics_bind:
        shutil.rmtree(metrics_directory(), ignore_errors=True)


def metrics_directory() -> Path:
    """The directory in which the workers leave their numbers."""
    return Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def post_worker_init(_worker: Any) -> None:
    """Start what works beside the requests, and wait a second at most for its first results."""
    from wsgi import app  # noqa: PLC0415 - gunicorn has loaded it by now, perhaps in an operator's own module

    app.background.start(wait=1)
    if settings.metrics_bind and app.background.exporter:
        app.background.exporter.start(listener(address_of(settings.metrics_bind)))
    # Until here an exception can only tell the operator why the start failed. From here on it can quote a visitor.
    logger.addFilter(drop_exception_text)
    # A request needs the interpreter's lock three times, and while another computes it waits this long for each.
    sys.setswitchinterval(0.001)
    # What is loaded stays. Looking through it for garbage would hold the lock for as long as a large request does.
    gc.freeze()


def worker_exit(_server: Any, _worker: Any) -> None:
    """Close the connections to the other servers."""
    if "wsgi" in sys.modules:  # not when the app could not be made
        from wsgi import app  # noqa: PLC0415 - as above

        app.background.stop()
