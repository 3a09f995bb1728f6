"""The settings, read from the environment once; all errors are reported together."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import date, timedelta
from difflib import get_close_matches
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.forms import FORM_TYPES
from app.mailbox import Mailbox, parse_mailbox, parse_mailboxes

NOTICE_PERIOD_DAYS = 180
"""Days between the announcement of a deprecation and the sunset (specification, Versioning, rule 4)."""

MAX_TIMEOUT = 300  # the longest SMTP_TIMEOUT in seconds; no visitor waits longer

SmtpSecurity = Literal["starttls", "tls", "none"]
USUAL_SECURITY: Mapping[int, SmtpSecurity] = {587: "starttls", 465: "tls"}
"""The usual SMTP_SECURITY of each port for the submission of mail (RFC 8314, section 3.3)."""
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
T = TypeVar("T")

DEFAULT_RECIPIENT = "ventas@localhost"  # without a mail server, when messages are stored
BASE_URL = "an http or https URL without query or fragment, whose path has no empty segment and no . or .."
NAMED = 'alone or after a name, as in Formulario web <web@example.com> or "Ventas, Uruguay" <ventas@example.com>'
MAILBOXES = f"e-mail addresses separated by commas, each {NAMED}"
TEXT = "text without control characters"
CREDENTIAL = "ASCII text without control characters"


class SettingsError(SystemExit):
    """The environment is invalid; standard error gets one line for each error at once.

    A ``SystemExit``, so that gunicorn, the flask command and a plain import all stop without a traceback and with exit
    status 78 (EX_CONFIG of sysexits.h). For Nagios, ``flask mail status`` exits with status 2.
    """

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.code = os.EX_CONFIG
        with suppress(OSError):  # it may be a file on a full disk
            print(self, file=sys.stderr)  # noqa: T201 - there is no log yet
        if sys.argv[-2:] == ["mail", "status"]:
            self.code = 2
            print(f"CRITICAL - invalid settings: {'; '.join(errors)}")  # noqa: T201


def missing_extra(variable: str, extra: str) -> SettingsError:
    """The error for a variable whose optional libraries are not installed."""
    install = f".venv/bin/python -m pip install --require-hashes -r requirements/{extra}.txt"
    return SettingsError([f"{variable} needs the extra [{extra}]: run {install}"])


def _matching(pattern: str, convert: Callable[[str], T]) -> Callable[[str], T]:
    def convert_match(raw: str) -> T:
        if not re.fullmatch(pattern, raw):
            raise ValueError
        return convert(raw)

    return convert_match


_name = _matching(r"[A-Za-z0-9._-]+", str)
# SASL allows more than ASCII (RFC 4616), but smtplib does not. So it fails at the start, not later.
_credential = _matching(r"[ -~]+", str)
_date = _matching(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", date.fromisoformat)
# The characters of IANA's names. Other files and folders there, such as localtime, begin in lower case.
_time_zone = _matching(r"[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", ZoneInfo)
# The characters of RFC 3986; none of them can end the <...> of a Link field.
_reference = _matching(r"(https?:/)?/[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", str)


def _path(raw: str) -> Path:
    return Path(raw).absolute()


def _text(raw: str) -> str:
    if not raw.isprintable():
        raise ValueError
    return raw


def _host(raw: str) -> str:
    return str(IPv6Address(raw)) if ":" in raw else _name(raw)


def _whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    def convert(raw: str) -> int:
        if not lowest <= int(raw) <= highest:
            raise ValueError
        return int(raw)

    return _matching(r"[0-9]+", convert)


def _seconds(raw: str) -> float:
    seconds = float(raw) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", raw) else 0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ValueError
    return seconds


def parse_base_url(raw: str) -> str:
    """The base URL without a trailing slash; raises ValueError when it is not valid."""
    # Clients resolve URLs against it, which removes "." and ".." (RFC 3986, section 5.2.4). A path that begins
    # with "//" names another host.
    segments = r"(/(?!\.\.?(/|$))[A-Za-z0-9._~-]+)*"
    if not re.fullmatch(rf"https?://[A-Za-z0-9.\-\[\]:]+{segments}/*", raw) or not urlsplit(raw).hostname:
        raise ValueError
    _ = urlsplit(raw).port  # raises ValueError for an invalid port
    return raw.rstrip("/")


def _origins(raw: str) -> tuple[str, ...]:
    origins = tuple(part.strip().lower() for part in raw.split(","))
    if raw != "*" and any(parse_base_url(origin) != origin or urlsplit(origin).path for origin in origins):
        raise ValueError
    # A browser omits a scheme's default port.
    return tuple(re.sub(r"^(http:.*):80$|^(https:.*):443$", r"\1\2", origin) for origin in origins)


def _tcp_address(raw: str) -> str:
    host, _, port = raw.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        IPv6Address(host[1:-1])
    else:
        _name(host)
    _whole_number(0, 65535)(port)
    return raw


def _bind(raw: str) -> str:
    return raw if raw.startswith("unix:") and raw != "unix:" else _tcp_address(raw)


def setting(convert: Callable[[str], object], default: str | None, accepted: str, *, secret: bool = False) -> Any:
    """A field of Settings; its default is text as an operator would write it, converted like any value."""
    return field(repr=not secret, metadata={"convert": convert, "default": default, "accepted": accepted})


def choice(literal: Any, default: str) -> Any:
    """A setting that takes one of the words of a Literal."""
    return setting(_matching("|".join(get_args(literal)), str), default, "one of " + ", ".join(get_args(literal)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The service's settings, each read from the variable of that name; docs/settings.md describes them."""

    smtp_host: str | None = setting(_host, None, "a host name or an IP address")
    smtp_port: int = setting(_whole_number(1, 65535), "587", "a port from 1 to 65535")
    smtp_security: SmtpSecurity = choice(SmtpSecurity, "starttls")
    smtp_username: str | None = setting(_credential, None, CREDENTIAL, secret=True)
    smtp_password: str | None = setting(_credential, None, CREDENTIAL, secret=True)
    smtp_timeout: float = setting(_seconds, "10", f"seconds, above 0 and at most {MAX_TIMEOUT}")
    """Seconds for a whole delivery attempt."""
    sales_email: tuple[Mailbox, ...] = setting(parse_mailboxes, DEFAULT_RECIPIENT, MAILBOXES)
    sales_email_of: Mapping[str, tuple[Mailbox, ...] | None] = setting(parse_mailboxes, None, MAILBOXES)
    """The recipients of each form type, from SALES_EMAIL_<FORM_TYPE>; None for those of SALES_EMAIL."""
    mail_from: Mailbox = setting(parse_mailbox, "web@localhost", f"one e-mail address, {NAMED}")
    mail_timezone: ZoneInfo = setting(_time_zone, "UTC", "an IANA time zone such as America/Montevideo")
    """The time zone of a message's Date and displayed time."""
    mail_dir: Path = setting(_path, "var/mail", "a path")
    public_base_url: str | None = setting(parse_base_url, None, BASE_URL)
    cors_origins: tuple[str, ...] = setting(
        _origins, "*", "* or origins such as https://www.example.com separated by commas"
    )
    trusted_proxies: int = setting(_whole_number(0, 16), "0", "a number of proxies from 0 to 16")
    rate_limit_storage: str | None = setting(_text, None, TEXT, secret=True)
    api_name: str = setting(_text, "Public API", TEXT)
    api_v1_deprecated_on: date | None = setting(_date, None, "a date, YYYY-MM-DD")
    api_v1_sunset_on: date | None = setting(_date, None, "a date, YYYY-MM-DD")
    api_v1_successor: str | None = setting(_reference, None, "an http or https URL or a path that begins with /")
    log_format: LogFormat = choice(LogFormat, "text")
    log_level: LogLevel = choice(LogLevel, "info")
    bind: str = setting(_bind, "127.0.0.1:8000", "HOST:PORT or unix:PATH")
    metrics_bind: str | None = setting(_tcp_address, None, "HOST:PORT")
    workers: int = setting(_whole_number(1, 256), "1", "a number from 1 to 256")
    threads: int = setting(_whole_number(1, 1024), "32", "a number from 1 to 1024")

    @property
    def has_mail_server(self) -> bool:
        """True when SMTP_HOST is set. If not (development), messages are stored."""
        return self.smtp_host is not None

    @property
    def has_recipients(self) -> bool:
        """True when SALES_EMAIL or a form type's own is set."""
        return any(mailbox.address != DEFAULT_RECIPIENT for mailbox in self.all_recipients)

    def recipients(self, form_type: str) -> tuple[Mailbox, ...]:
        """The recipients of this form type, in the header and in the envelope."""
        return self.sales_email_of.get(form_type) or self.sales_email

    @property
    def all_recipients(self) -> tuple[Mailbox, ...]:
        """The recipients of any form type, each address once."""
        lists = [self.sales_email, *self.sales_email_of.values()]
        return tuple({mailbox.address: mailbox for mailboxes in lists for mailbox in mailboxes or ()}.values())

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read and check every variable. Nothing is created or changed.

        An empty variable counts as not set. Raises SettingsError with one line per error: the variable, its value and
        what is accepted.
        """
        given: dict[str, str] = {}
        values: dict[str, Any] = {}
        errors = []
        for name, each in VARIABLES.items():
            if (raw := environ.get(name, "")).strip():
                given[name] = raw.strip() if each.repr else raw  # a password may end with a space
            text = given.get(name, each.metadata["default"])
            try:
                values[name] = None if text is None else each.metadata["convert"](text)
            except (ValueError, OSError, ZoneInfoNotFoundError):
                shown = repr(text) if each.repr else "(hidden)"
                errors.append(f"{name}={shown}: expected {each.metadata['accepted']}")
        if "SMTP_SECURITY" not in given and values.get("SMTP_PORT") in USUAL_SECURITY:
            values["SMTP_SECURITY"] = USUAL_SECURITY[values["SMTP_PORT"]]
        errors += _contradictions(given, values)
        if errors:
            raise SettingsError(errors)
        by_form_type = {form_type: values.pop(name) for form_type, name in BY_FORM_TYPE.items()}
        return cls(sales_email_of=by_form_type, **{name.lower(): value for name, value in values.items()})


BY_FORM_TYPE = {form_type: f"SALES_EMAIL_{form_type.upper()}" for form_type in FORM_TYPES}
"""The variable with the recipients of each form type."""
VARIABLES = {
    name: each
    for each in fields(Settings)
    for name in (BY_FORM_TYPE.values() if each.name == "sales_email_of" else [each.name.upper()])
}
"""Every variable, with the field of Settings that it is read into."""


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are not read, but look like one that is, each with that one."""
    unknown = environ.keys() - VARIABLES.keys()
    similar = {name: get_close_matches(name.upper(), VARIABLES, n=1, cutoff=0.8) for name in sorted(unknown)}
    return {name: match for name, matches in similar.items() for match in matches}


def _contradictions(given: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[str]:
    """Invalid combinations of variables. A variable that is invalid by itself has no value here."""
    if "SMTP_HOST" in given:
        yield from _all_or_none(("SMTP_HOST", "SALES_EMAIL", "MAIL_FROM"), given)
    yield from _all_or_none(("SMTP_USERNAME", "SMTP_PASSWORD"), given)
    yield from _all_or_none(("API_V1_DEPRECATED_ON", "API_V1_SUNSET_ON", "API_V1_SUCCESSOR"), given)
    deprecated_on, sunset_on = values.get("API_V1_DEPRECATED_ON"), values.get("API_V1_SUNSET_ON")
    if deprecated_on and sunset_on and sunset_on - deprecated_on < timedelta(days=NOTICE_PERIOD_DAYS):
        yield (
            f"API_V1_SUNSET_ON='{sunset_on}': expected a date at least {NOTICE_PERIOD_DAYS} days after"
            f" API_V1_DEPRECATED_ON='{deprecated_on}'"
        )
    workers = values.get("WORKERS", 1)
    if workers > 1 and "METRICS_BIND" in given:
        yield (
            f"WORKERS='{workers}': expected 1 with METRICS_BIND, which shows the metrics of one worker only; run"
            " several services instead"
        )
    if workers > 1 and "RATE_LIMIT_STORAGE" not in given:
        yield (
            f"WORKERS='{workers}': expected 1 without RATE_LIMIT_STORAGE, because each worker would grant every client"
            " the whole quota; either set it, or run several one-worker services behind nginx, hashed by client address"
        )


def _all_or_none(names: tuple[str, ...], given: Mapping[str, str]) -> list[str]:
    first = next((name for name in names if name in given), None)
    return [f"{name} is not set: required with {first}" for name in names if first and name not in given]
