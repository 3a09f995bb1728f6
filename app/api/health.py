"""The health view of the versions."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from app.api import envelope
from app.api.envelope import Body
from app.api.request import QueryParameter
from app.mail.health import MailHealth
from app.ratelimit.window import Storage
from app.versions import Version

VERBOSE = QueryParameter("verbose", ("true", "false"))


def create_health_view(version: Version, mail_health: MailHealth, storage: Storage) -> Callable[[], Body]:
    """The view of the platform's state, as seen by this process."""
    started_at = time.monotonic()

    def get_health() -> Body:
        mail = mail_health.latest()
        data = {
            "status": "ok" if mail.ok else "degraded",
            "version": version.name,
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "checks": {"api": "ok", "mail": "ok" if mail.ok else "fail"},
        }
        if VERBOSE.read() != "true":
            return envelope.success(data=data)
        details = {
            "uptime_seconds": int(time.monotonic() - started_at),
            "mail": {
                "transport": mail_health.transport,
                "checked_at": mail.checked_at.isoformat(timespec="seconds") if mail.checked_at else None,
                "latency_ms": mail.latency_ms,
                "undelivered": mail.undelivered,
                "server": mail.server,
                "storage": mail.disk,
            },
            "rate_limit": {"storage": storage.name, "status": "ok" if storage.is_reachable else "fallback"},
        }
        return envelope.success(data=data | {"details": details})

    return get_health
