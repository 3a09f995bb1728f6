"""Valid things, of which a test changes what it is about."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from app.settings import Settings


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
