"""Valid things, of which a test changes what it is about."""

import time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from app.api.quotas import Limits
from app.ratelimit.window import Policy, SlidingWindow
from app.settings import Settings

API_QUOTA = Policy(quota=60, window_seconds=60)
CONTACT_QUOTA = Policy(quota=1, window_seconds=30)
"""The quotas of the apps in the tests. They are those of the specification, and stay when the service's change."""

UTC_ZONE = ZoneInfo("UTC")

REQUEST_ID = "3f0c9a1b5d7e42868c1f0a9be3d47c52"
REFERENCE = "3F0C-9A1B"
"""The reference of what that request submits."""

LOG_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
"""The times in the service's log and in nginx's (RFC 3339)."""

SUNSET = {
    "API_V1_DEPRECATED_ON": "2020-01-01",
    "API_V1_SUNSET_ON": "2021-01-01",
    "API_V1_SUCCESSOR": "/api/v2",
}
"""Settings under which v1 has been retired long ago."""

WRONG_BODY: dict[str, Any] = {
    "_bp_check": " ",
    "ts": 0,
    "captcha_expected": "aB3dE",
    "captcha_input": "xxxxx",
    "form_type": "otro",
    "email": "maria",
    "nombre": 5,
}
"""A body that fails every check there is."""


def make_limits() -> Limits:
    return Limits(SlidingWindow(API_QUOTA), SlidingWindow(CONTACT_QUOTA))


def make_settings(mail_dir: Path, **environ: str) -> Settings:
    return Settings.from_env({"MAIL_DIR": str(mail_dir)} | environ)


def contact_body(**changes: Any) -> dict[str, Any]:
    """A demo request as the website sends it; a change to None leaves the field out."""
    body = {
        "form_type": "demo",
        "nombre": "María Ñúñez",
        "empresa": "Comercio Ejemplo S.L.",
        "email": "maria@example.com",
        "telefono": "+34 600 000 000",
        "mensaje": "Quisiera una demostración.\n¿Es posible el jueves?",
        "ts": time.time_ns() // 1_000_000 - 10_000,
        "captcha_expected": "aB3dE",
        "captcha_input": "Ab3De",
        "_bp_check": "",
    }
    return {name: value for name, value in (body | changes).items() if value is not None}
