"""gunicorn's settings, some from the environment. gunicorn loads this file by default."""

import logging
import os
import resource
import sys
from typing import Any

from app.logs import drop_exception_text, logging_config
from app.mail.spool import require_mail_dir
from app.metrics import require_metrics
from app.metrics.listener import metrics_listeners, open_metrics_listener, require_free
from app.ratelimit.storage import create_storage
from app.release import RELEASE
from app.settings import Settings, misspelt

settings = Settings.from_env(os.environ)
create_storage(settings)  # An unusable storage stops the start here, before any worker.
require_metrics(settings)

bind = settings.bind
workers = settings.workers
threads = settings.threads
worker_class = "app.worker.EnvelopeWorker"
wsgi_app = "wsgi:app"
logconfig_dict = logging_config(settings)
loglevel = settings.log_level

# A delivery attempt may finish after the service is told to stop.
graceful_timeout = int(settings.smtp_timeout) + 10

# One request per connection. gunicorn closes a kept connection when much of a body was not read or when it stops, and
# a proxy would send the next request into it. So each response closes it, whatever the proxy asks for.
keepalive = 0

# A worker without a free descriptor for a connection dies, and its requests with it. Each thread may use three: mail
# server, Redis and a message's file. The rest, with those that app/worker.py accepts beyond this, is below 100.
worker_connections = max(threads, min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 3 * threads - 100))

# A worker touches a file to show that it is alive. The disk of a container may be read-only.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - the file has no name

# Only the app trusts proxies, by TRUSTED_PROXIES. gunicorn itself would trust 127.0.0.1 and every peer on a unix
# socket.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
forwarder_headers = ""

# gunicorn would drop fields with an underscore in their name and not count them. One request may hold 200,000 of them,
# which takes seven seconds to read. So such a request is refused. nginx never passes such a field on.
header_map = "refuse"

# Each service on a machine would have a control socket, and each would have to be protected.
control_socket_disable = True

if "--check-config" in sys.argv:  # gunicorn runs no hooks then, and the operator sees only what is wrong
    logging.basicConfig(format="%(levelname)s: %(message)s")
    for unknown, similar in misspelt(os.environ).items():
        logging.getLogger("gunicorn.error").warning("%s is not a setting; is it %s?", unknown, similar)
    if settings.metrics_bind:
        open_metrics_listener(settings.metrics_bind, beside_another=True)
        for listener in metrics_listeners:
            listener.close()  # else a scrape could end here
    logging.disable()
    require_mail_dir(settings.mail_dir)


def on_starting(_server: Any) -> None:
    """Stop the start when MAIL_DIR takes no message. A reload goes on: mail is delivered even with a full disk."""
    require_mail_dir(settings.mail_dir)
    logger = logging.getLogger("gunicorn.error")
    # gunicorn sets this variable for the new master of an upgrade (USR2), which listens with the old one.
    is_upgrade = "GUNICORN_PID" in os.environ
    # gunicorn itself would try for five seconds, with a line for each, and would not name the setting.
    if not is_upgrade and not settings.bind.startswith("unix:"):
        require_free("BIND", settings.bind)
    if settings.metrics_bind:
        open_metrics_listener(settings.metrics_bind, beside_another=is_upgrade)
    if metrics_listeners:
        logger.info("Metrics at: http://%s", settings.metrics_bind)
    logger.info("Public web interface %s", RELEASE)


def post_worker_init(_worker: Any) -> None:
    """Start the background threads."""
    from wsgi import app  # noqa: PLC0415 - gunicorn has loaded it by now, perhaps in an operator's own module

    app.extensions["background"].start()
    for listener in metrics_listeners:
        app.extensions["metrics"].serve(listener)
    # Until here an exception can only tell the operator why the start failed. From here on it can quote a visitor.
    logging.getLogger("gunicorn.error").addFilter(drop_exception_text)


def worker_exit(_server: Any, _worker: Any) -> None:
    """Stop the threads; close the connections."""
    if "wsgi" in sys.modules:  # not when creating the app failed
        from wsgi import app  # noqa: PLC0415 - as above

        app.extensions["background"].stop()
