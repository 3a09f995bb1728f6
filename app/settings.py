"""The settings: the environment is read once, and all faults are reported at once."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from ipaddress import IPv6Address
from pathlib import Path
from typing import Literal, TypeVar, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.mailbox import Mailbox, parse_mailbox, parse_mailboxes

NOTICE_PERIOD_DAYS = 180
"""Days between the announcement of a deprecation and the sunset (specification, Versioning, rule 4)."""

MAX_TIMEOUT = 300
"""The longest SMTP_TIMEOUT in seconds; no visitor waits longer."""

SmtpSecurity = Literal["starttls", "tls", "none"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]

PRIVATE_DIRECTORY = "a directory that this user can make or write and that nobody else can read"
BASE_URL = "an http or https address without query or fragment, whose path has no empty segment and no . or .."
NAMED = 'alone or after a name, as in Formulario web <web@example.com> or "Ventas, Uruguay" <ventas@example.com>'
CREDENTIAL = "ASCII text without control characters"
STORAGE_SCHEMES = ("redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix")
STORAGE_ADDRESS = (
    "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// with the same for TLS, redis+unix://[USER:PASSWORD@]/PATH,"
    " or valkey://, valkeys:// and valkey+unix://"
)

T = TypeVar("T")


class SettingsError(SystemExit):
    """The environment cannot be used.

    A ``SystemExit``, so that gunicorn, the flask command and a plain import all stop with these lines and no traceback.
    The command ``mail status`` cannot run then, and still says so to Nagios: one line on standard output, and status 2.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        if sys.argv[-2:] == ["mail", "status"]:
            line = f"CRITICAL - the settings cannot be used: {'; '.join(faults)}\n"
            sys.stdout.buffer.write(line.encode(sys.stdout.encoding, "backslashreplace"))
            self.code = 2


def extra_is_missing(variable: str, extra: str) -> SettingsError:
    """The fault of a variable that is set while the optional libraries that it needs are not installed."""
    install = f".venv/bin/pip install --require-hashes -r requirements-{extra}.txt"
    return SettingsError([f"{variable} is set: requires the extra [{extra}], {install}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the service; README.md describes each variable."""

    smtp_host: str | None
    smtp_port: int
    smtp_security: SmtpSecurity
    smtp_username: str | None = field(repr=False)
    smtp_password: str | None = field(repr=False)
    smtp_timeout: float
    """Seconds for a complete hand-over to the mail server."""
    sales_email: tuple[Mailbox, ...]
    mail_from: Mailbox
    mail_timezone: ZoneInfo
    """The time zone in which messages show and date their time."""
    mail_dir: Path
    public_base_url: str | None
    cors_origins: tuple[str, ...]
    trusted_proxies: int
    rate_limit_storage: str | None = field(repr=False)
    api_name: str
    api_v1_deprecated_on: date | None
    api_v1_sunset_on: date | None
    api_v1_successor: str | None
    log_format: LogFormat
    log_level: LogLevel
    bind: str
    metrics_bind: str | None
    workers: int
    threads: int

    @property
    def has_mail_server(self) -> bool:
        """True when messages are sent. Without one, as in development, they are stored."""
        return self.smtp_host is not None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read and check every variable. Nothing is made or changed: the spool makes MAIL_DIR.

        Raises SettingsError with one line per fault that names the variable, the value and what is accepted.
        """
        env = _Environment(environ)
        settings = cls(
            smtp_host=env.read("SMTP_HOST", _host, None, "a host name or an IP address"),
            smtp_port=env.read("SMTP_PORT", _whole_number(1, 65535), 587, "a port from 1 to 65535"),
            smtp_security=env.choose("SMTP_SECURITY", get_args(SmtpSecurity), "starttls"),
            smtp_username=env.read("SMTP_USERNAME", _credential, None, CREDENTIAL, secret=True),
            smtp_password=env.read("SMTP_PASSWORD", _credential, None, CREDENTIAL, secret=True),
            smtp_timeout=env.read("SMTP_TIMEOUT", _seconds, 10.0, f"seconds, above 0 and at most {MAX_TIMEOUT}"),
            sales_email=env.read(
                "SALES_EMAIL",
                parse_mailboxes,
                "ventas@localhost",
                f"e-mail addresses separated by commas, each {NAMED}",
            ),
            mail_from=env.read("MAIL_FROM", parse_mailbox, "web@localhost", f"one e-mail address, {NAMED}"),
            mail_timezone=env.read("MAIL_TIMEZONE", _time_zone, "UTC", "an IANA time zone such as America/Montevideo"),
            mail_dir=env.read("MAIL_DIR", _private_directory, "var/mail", PRIVATE_DIRECTORY),
            public_base_url=env.read("PUBLIC_BASE_URL", parse_base_url, None, BASE_URL),
            cors_origins=env.read(
                "CORS_ORIGINS", _origins, ("*",), "* or origins such as https://www.example.com separated by commas"
            ),
            trusted_proxies=env.read("TRUSTED_PROXIES", _whole_number(0, 16), 0, "a number of proxies from 0 to 16"),
            rate_limit_storage=env.read(
                "RATE_LIMIT_STORAGE",
                _storage,
                None,
                STORAGE_ADDRESS,
                secret=True,
            ),
            api_name=env.read("API_NAME", _text, "Public API", "text without control characters"),
            api_v1_deprecated_on=env.read("API_V1_DEPRECATED_ON", _date, None, "a date, YYYY-MM-DD"),
            api_v1_sunset_on=env.read("API_V1_SUNSET_ON", _date, None, "a date, YYYY-MM-DD"),
            api_v1_successor=env.read(
                "API_V1_SUCCESSOR", _reference, None, "an http or https address or a path that begins with /"
            ),
            log_format=env.choose("LOG_FORMAT", get_args(LogFormat), "text"),
            log_level=env.choose("LOG_LEVEL", get_args(LogLevel), "info"),
            bind=env.read("BIND", _bind, "127.0.0.1:8000", "HOST:PORT or unix:PATH"),
            metrics_bind=env.read("METRICS_BIND", _tcp_address, None, "HOST:PORT"),
            workers=env.read("WORKERS", _whole_number(1, 256), 1, "a number from 1 to 256"),
            threads=env.read("THREADS", _whole_number(1, 1024), 32, "a number from 1 to 1024"),
        )
        env.faults += settings._contradictions(env)
        if env.faults:
            raise SettingsError(env.faults)
        return settings

    def _contradictions(self, env: _Environment) -> list[str]:
        """The faults that only two variables together have."""
        faults = []
        if env.is_set("SMTP_HOST"):
            faults += [
                f"{name} is not set: required with SMTP_HOST"
                for name in ("SALES_EMAIL", "MAIL_FROM")
                if not env.is_set(name)
            ]
        faults += env.all_or_none("SMTP_USERNAME", "SMTP_PASSWORD")
        faults += env.all_or_none("API_V1_DEPRECATED_ON", "API_V1_SUNSET_ON", "API_V1_SUCCESSOR")
        if self.api_v1_deprecated_on and self.api_v1_sunset_on:
            notice = self.api_v1_sunset_on - self.api_v1_deprecated_on
            if notice < timedelta(days=NOTICE_PERIOD_DAYS):
                faults.append(
                    f"API_V1_SUNSET_ON={str(self.api_v1_sunset_on)!r}: expected a date at least"
                    f" {NOTICE_PERIOD_DAYS} days after API_V1_DEPRECATED_ON={str(self.api_v1_deprecated_on)!r}"
                )
        if self.workers > 1 and not env.is_set("RATE_LIMIT_STORAGE"):
            faults.append(
                f"WORKERS='{self.workers}': expected 1 without RATE_LIMIT_STORAGE, because each worker would grant"
                " every client the whole quota; either set it, or run several services of one worker each behind"
                " nginx's hash of the client's address"
            )
        return faults


class _Environment:
    """Reads variables one by one and collects their faults; an empty variable counts as not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.faults: list[str] = []

    def is_set(self, name: str) -> bool:
        return bool(self._environ.get(name, "").strip())

    def read(
        self, name: str, convert: Callable[[str], T], default: T | str, accepted: str, *, secret: bool = False
    ) -> T:
        """The converted value; a default given as text is converted and checked too."""
        raw = self._environ.get(name, "")
        if not secret or not self.is_set(name):
            raw = raw.strip()  # a password may end with a space
        try:
            if raw:
                return convert(raw)
            return convert(default) if isinstance(default, str) else default
        except (ValueError, OverflowError):
            shown = "(hidden)" if secret else repr(raw or default)
            self.faults.append(f"{name}={shown}: expected {accepted}")
            return default  # type: ignore[return-value]  # never used: from_env raises once all is read

    def choose(self, name: str, choices: tuple[T, ...], default: T) -> T:
        by_name = {str(choice): choice for choice in choices}

        def convert(raw: str) -> T:
            if raw not in by_name:
                raise ValueError
            return by_name[raw]

        return self.read(name, convert, default, "one of " + ", ".join(by_name))

    def all_or_none(self, *names: str) -> list[str]:
        present = [name for name in names if self.is_set(name)]
        if not present:
            return []
        return [f"{name} is not set: required with {present[0]}" for name in names if name not in present]


def _text(raw: str) -> str:
    if not raw.isprintable():
        raise ValueError
    return raw


def _credential(raw: str) -> str:
    # SASL allows more (RFC 4616), but smtplib does not. The start reports it, not the first message.
    if not raw.isascii():
        raise ValueError
    return _text(raw)


def _host(raw: str) -> str:
    return str(IPv6Address(raw)) if ":" in raw else _name(raw)


def _name(raw: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", raw):
        raise ValueError
    return raw


def _whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    def convert(raw: str) -> int:
        if not (raw.isascii() and raw.isdigit() and lowest <= int(raw) <= highest):
            raise ValueError
        return int(raw)

    return convert


def _date(raw: str) -> date:
    day = date.fromisoformat(raw)
    if str(day) != raw:
        raise ValueError
    return day


def _seconds(raw: str) -> float:
    seconds = float(raw) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", raw) else 0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ValueError
    return seconds


def _time_zone(raw: str) -> ZoneInfo:
    # The letters of IANA's names. Other files and folders beside the zones, such as localtime, begin with a small one.
    if not re.fullmatch(r"[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", raw):
        raise ValueError
    try:
        return ZoneInfo(raw)
    except (ZoneInfoNotFoundError, OSError) as error:  # an OSError when it is a folder of the package tzdata
        raise ValueError from error


def _private_directory(raw: str) -> Path:
    """The path of a directory that is private, or that this user can make. Checked without making or changing anything.

    The group of another user's directory may read it, because only so can this user write it.
    """
    path = Path(raw).absolute()
    try:
        if path.exists():
            status = path.stat()
            usable = stat.S_ISDIR(status.st_mode) and (
                # This user can make it private, unless it is shared as /tmp is. A mounted volume may be another user's.
                not status.st_mode & stat.S_ISVTX
                if status.st_uid == os.geteuid()
                else not status.st_mode & stat.S_IRWXO and os.access(path, os.R_OK | os.W_OK | os.X_OK)
            )
        else:
            parent = next(parent for parent in path.parents if parent.exists())
            usable = parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
    except OSError as error:
        raise ValueError from error
    if not usable:
        raise ValueError
    return path


def parse_base_url(raw: str) -> str:
    """The address without a slash at its end. Raises ValueError when it is no base address of the service."""
    # Clients resolve addresses against it, which takes "." and ".." away (RFC 3986, section 5.2.4). A path that begins
    # with "//" names another host.
    segments = r"(/(?!\.\.?(/|$))[A-Za-z0-9._~-]+)*"
    if not re.fullmatch(rf"https?://[A-Za-z0-9.\-\[\]:]+{segments}/*", raw) or not urlsplit(raw).hostname:
        raise ValueError
    _ = urlsplit(raw).port  # raises ValueError when it is not a port
    return raw.rstrip("/")


def _origins(raw: str) -> tuple[str, ...]:
    if raw == "*":
        return ("*",)
    origins = tuple(part.strip().lower() for part in raw.split(","))
    for origin in origins:
        if parse_base_url(origin) != origin or urlsplit(origin).path:
            raise ValueError
    return origins


def _storage(raw: str) -> str:
    scheme, separator, _ = _text(raw).partition("://")
    if not separator or scheme not in STORAGE_SCHEMES:
        raise ValueError
    url = urlsplit(raw)
    _ = url.port  # raises ValueError when it is not a port
    if scheme.endswith("+unix"):
        complete = not url.hostname and len(url.path) > 1
    else:
        # redis-py would use database 0 when the path is not a number.
        complete = bool(_host(url.hostname or "") and re.fullmatch(r"(/[0-9]*)?", url.path))
    if not complete or url.fragment:
        raise ValueError
    return raw


def _reference(raw: str) -> str:
    # The characters of RFC 3986; none of them can end the <...> of a Link field.
    if not re.fullmatch(r"(https?:/)?/[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", raw):
        raise ValueError
    return raw


def _bind(raw: str) -> str:
    if raw.startswith("unix:"):
        if not raw.removeprefix("unix:"):
            raise ValueError
        return raw
    return _tcp_address(raw)


def _tcp_address(raw: str) -> str:
    host, _, port = raw.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        IPv6Address(host[1:-1])
    else:
        _name(host)
    _whole_number(0, 65535)(port)
    return raw
