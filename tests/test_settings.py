"""The settings: every variable's default, what it takes, what it refuses and in which words."""

import os
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest

from app.forms import FORM_TYPES
from app.mailbox import Mailbox
from app.settings import VARIABLES as DECLARED
from app.settings import Settings, SettingsError, misspelt
from tests.timeline import assert_went
from tools import ROOT

ReadEnv = Callable[..., Settings]
Faults = Callable[..., list[str]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty one, which stays so: reading settings makes nothing."""
    return tmp_path_factory.mktemp("settings")


@pytest.fixture
def read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> ReadEnv:
    """Reads settings from nothing but the given variables, in a working directory of the tests."""
    monkeypatch.chdir(directory)
    return lambda **environ: Settings.from_env(environ)


@pytest.fixture
def faults(read: ReadEnv) -> Faults:
    def faults(**environ: str) -> list[str]:
        with pytest.raises(SettingsError) as raised:
            read(**environ)
        return str(raised.value).splitlines()

    return faults


class Variable(NamedTuple):
    """What is known of a variable; words and wrong values are separated by a bar."""

    default: Any
    accepted: str
    """Words of what the line of a fault says is accepted."""
    valid: dict[str, Any]
    invalid: str


def same(*values: str) -> dict[str, Any]:
    """Values that stay as they are written."""
    return {value: value for value in values}


def numbers(*values: float) -> dict[str, Any]:
    return {str(value): value for value in values}


def one_of(default: str, *others: str, no: str) -> Variable:
    words = [default, *others]
    return Variable(default, "|".join(words), same(*words), no)


NO_NUMBERS = f"x|-1|1.0|1e3|1 0|1_0|\u0661|{'9' * 5000}"
NO_MAILBOXES = (
    '<>|<a@example.com>|" " <a@example.com>|Web <>|Web <web>|Web a@example.com|Web <a@example.com> x|'
    "a b@example.com|Web <a@example.com|Web <<a@example.com>>|Web <a@example.com> <b@example.com>|"
    '"Ventas <a@example.com>|La "web" <a@example.com>|Ventas, Uruguay <a@example.com>|Web: <a@example.com>|'
    # what no reader shows, or takes for the next field
    '"Web\r\nBcc: b@example.com" <a@example.com>|a@b\nBcc: c@d|Web\x1b[31m <a@example.com>|Web\u202e <a@b>|'
    # encoded words
    '"=?utf-8?q?a?=" <a@example.com>|ñ =?utf-8?q?a?= <a@example.com>|=?utf-8?q?a=0D=0ABcc=3A_b?=@example.com'
)
"""Neither a sender nor recipients."""

A, B = Mailbox("a@example.com"), Mailbox("b@example.com")
WEB = Mailbox("web@example.com", "Formulario web")
TWO_NAMED = {'Ana <a@b>,"Ventas, Uruguay" <c@d>': (Mailbox("a@b", "Ana"), Mailbox("c@d", "Ventas, Uruguay"))}
SENDERS = ["web@localhost", "la.web+2@example.com", "!#$%&'*+/=?^_`{|}~-@example.com", f"{'w' * 64}@example.com"]
NAMED_SENDERS = {
    "Formulario web <web@example.com>": WEB,
    '  "Formulario   web" <web@example.com>': WEB,
    "Pagos Ñandú S.L.<web@example.com>": Mailbox(WEB.address, "Pagos Ñandú S.L."),
    r'"La \"web\" \\ (demo)"  <web@example.com>': Mailbox(WEB.address, r'La "web" \ (demo)'),
}
ORIGINS = {"*": ("*",), "https://a.example, http://b.example:8080": ("https://a.example", "http://b.example:8080")}
A_KIND = Variable(None, "e-mail addresses|commas", TWO_NAMED, "ventas")

VARIABLES: dict[str, Variable] = {
    "SMTP_HOST": Variable(
        None,
        "host name|IP address",
        same("mail.example.com", "localhost", "192.0.2.1", "2001:db8::1"),
        "mail example|smtp://mail.example.com|mail.example.com:587|a/b|a\nb",
    ),
    "SMTP_PORT": Variable(587, "1|65535", numbers(1, 25, 465, 65535), f"0|65536|{NO_NUMBERS}"),
    "SMTP_SECURITY": one_of("starttls", "tls", "none", no="ssl|STARTTLS|starttls,tls"),
    "SMTP_USERNAME": Variable(None, "text", same("web@example.com"), "us\ner|us\x1b[31mer|usuario ñ"),
    "SMTP_PASSWORD": Variable(None, "text", same("s3cr3t'\"; $x "), "pass\nword|pass\0word"),
    "SMTP_TIMEOUT": Variable(10, "seconds|0|300", numbers(1, 0.5, 10, 300), "0|-1|x|nan|inf|301|10s"),
    "SALES_EMAIL": Variable(
        (Mailbox("ventas@localhost"),),
        'e-mail addresses|commas|"Ventas, Uruguay" <ventas@example.com>',
        {"a@example.com": (A,), "a@example.com , b@example.com": (A, B)} | TWO_NAMED,
        f"ventas|a@example.com,|,a@example.com|a@example.com,,b@example.com|a@b;c@d|{NO_MAILBOXES}",
    ),
    **dict.fromkeys((f"SALES_EMAIL_{kind.upper()}" for kind in FORM_TYPES), A_KIND),
    "MAIL_FROM": Variable(
        Mailbox("web@localhost"),
        "one e-mail address|Formulario web <web@example.com>",
        {address: Mailbox(address) for address in SENDERS} | NAMED_SENDERS,
        f"web|@example.com|a@example.com,b@example.com|.web@example.com|la..web@example.com|ñandú@example.com|"
        f'"la web"@example.com|{"w" * 65}@example.com|web@example..com|web@ñandú.example|{NO_MAILBOXES}',
    ),
    "MAIL_TIMEZONE": Variable(
        ZoneInfo("UTC"),
        "an IANA time zone such as America/Montevideo",
        {name: ZoneInfo(name) for name in ("America/Montevideo", "Etc/GMT+3")},
        f"America/Macondo|america/montevideo|utc|UTC-3|-03:00|Europe|Europe/|Europe\\Madrid|{'A' * 5000}|"
        "/usr/share/zoneinfo/Europe/Madrid|Europe/../Europe/Madrid|localtime|posix/Europe/Madrid|zone.tab|UTC\0",
    ),
    "PUBLIC_BASE_URL": Variable(
        None,
        "http|https",
        same("https://www.example.com/pago", "http://localhost:8000", "http://[2001:db8::1]:8000")
        | {"https://www.example.com/": "https://www.example.com"},
        "www.example.com|ftp://www.example.com|https://|https://:443|https://www.example.com:99999|https://a b|"
        "https://www.example.com?a=b|https://www.example.com/#a|https://www.example.com//b.example|"
        "https://www.example.com/..|https://user:pw@www.example.com|https://[::1",
    ),
    "CORS_ORIGINS": Variable(
        ("*",),
        "*|https://|commas",
        ORIGINS,
        "www.example.com|https://a.example,*|https://a.example,|https://a.example/path|null|https://*.example.com",
    ),
    "TRUSTED_PROXIES": Variable(0, "number|0", numbers(0, 1, 2), f"true|17|{NO_NUMBERS}"),
    "RATE_LIMIT_STORAGE": Variable(None, "text", same("redis://:pw@cache:6379/0"), "redis://cache\n"),
    "API_NAME": Variable("Public API", "text", same("Pagos Ñandú"), "a\nb|a\0b"),
    "API_V1_DEPRECATED_ON": Variable(
        None, "YYYY-MM-DD", {"2026-01-01": date(2026, 1, 1)}, "2026-02-29|01/01/2026|20260101|soon"
    ),
    "API_V1_SUNSET_ON": Variable(
        None, "YYYY-MM-DD", {"2028-02-29": date(2028, 2, 29)}, "2026-13-01|2026-06-30T00:00|never"
    ),
    "API_V1_SUCCESSOR": Variable(
        None,
        "http|https|path",
        same("/api/v2", "https://www.example.com/api/v2", "http://localhost/v2?a=b#c"),
        'api/v2|javascript:x|/v2>; rel=x|/v2"|/a b|/a\nb|https://',
    ),
    "LOG_FORMAT": one_of("text", "json", no="JSON|xml"),
    "LOG_LEVEL": one_of("info", "debug", "warning", "error", "critical", no="INFO|trace|10"),
    "BIND": Variable(
        "127.0.0.1:8000",
        "HOST:PORT|unix:PATH",
        same("0.0.0.0:80", "localhost:8000", "[::1]:8000", "unix:/run/web/app.sock"),
        "127.0.0.1|8000|:8000|127.0.0.1:x|127.0.0.1:65536|unix:|::1:8000|http://localhost:80",
    ),
    "METRICS_BIND": Variable(
        None, "HOST:PORT", same("127.0.0.1:9100", "[::1]:9100"), "9100|:9100|127.0.0.1:x|unix:/run/m.sock"
    ),
    "WORKERS": Variable(1, "number|1", numbers(1, 4), f"0|{NO_NUMBERS}"),
    "THREADS": Variable(32, "number|1", numbers(1, 32, 64), f"0|{NO_NUMBERS}"),
}
SECRETS = {
    "SMTP_USERNAME": "account-of-the-mailbox",
    "SMTP_PASSWORD": "hunter2-of-the-mailbox",
    "RATE_LIMIT_STORAGE": "redis://limiter:hunter2-of-the-cache@cache:6379/0",
}
"""Variables whose values are never shown."""
SECRET_WORDS = "account-of-the-mailbox|hunter2"

ADDRESSES = {"SALES_EMAIL": "ventas@example.com", "MAIL_FROM": "web@example.com"}
LIFECYCLE = {"API_V1_DEPRECATED_ON": "2025-01-01", "API_V1_SUNSET_ON": "2026-06-30", "API_V1_SUCCESSOR": "/api/v2"}
COMPANIONS = {
    "SMTP_HOST": ADDRESSES,
    "SMTP_USERNAME": {"SMTP_PASSWORD": "x"},
    "SMTP_PASSWORD": {"SMTP_USERNAME": "x"},
    "WORKERS": {"RATE_LIMIT_STORAGE": "redis://localhost"},
    **dict.fromkeys(LIFECYCLE, LIFECYCLE),
}
"""What has to be set along with a variable."""

EXAMPLE = ROOT / "deploy" / "public-web-interface.env"
VALID = [(name, raw) for name, variable in VARIABLES.items() for raw in variable.valid]
INVALID = [(name, raw) for name, variable in VARIABLES.items() for raw in variable.invalid.split("|")]


def test_every_setting_has_a_row_here() -> None:
    rows = VARIABLES.keys() | {"MAIL_DIR"}  # which has a test of its own

    assert rows == DECLARED.keys(), "VARIABLES in tests/test_settings.py"


def test_the_example_names_every_setting() -> None:
    lines = re.findall(r"^#?([A-Z0-9_]+)=", EXAMPLE.read_text(), re.MULTILINE)

    assert {*lines} == DECLARED.keys(), "deploy/public-web-interface.env"
    assert len(lines) == len(DECLARED)


def named(variable_or_value: str) -> str:
    return f"{variable_or_value[:40]!a}".strip("'")


def value_of(settings: Settings, name: str) -> Any:
    kind = name.removeprefix("SALES_EMAIL_").lower()
    return settings.sales_email_of[kind] if kind in FORM_TYPES else getattr(settings, name.lower())


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("empty", ["", "  "], ids=["empty", "white space"])
def test_a_variable_that_is_not_set_or_empty_has_its_default(name: str, empty: str, read: ReadEnv) -> None:
    default = VARIABLES[name].default

    assert value_of(read(), name) == value_of(read(**{name: empty}), name) == default


@pytest.mark.parametrize("environ", [{}, {"MAIL_DIR": ""}], ids=["not set", "empty"])
def test_mail_is_stored_below_the_working_directory(environ: dict[str, str], read: ReadEnv, directory: Path) -> None:
    assert read(**environ).mail_dir == directory / "var" / "mail"


def test_variables_of_other_programs_are_ignored(read: ReadEnv) -> None:
    assert read(PATH="/bin", SMTP_HOSTS="?", smtp_port="?") == read()


@pytest.mark.parametrize(("name", "raw"), VALID, ids=named)
def test_a_valid_value_is_taken(name: str, raw: str, read: ReadEnv) -> None:
    settings = read(**(COMPANIONS.get(name, {}) | {name: raw}))

    assert value_of(settings, name) == VARIABLES[name].valid[raw]


SECURED: dict[str, tuple[dict[str, str], str]] = {
    "no port": ({}, "starttls"),
    "the port of STARTTLS": ({"SMTP_PORT": "587"}, "starttls"),
    "the port of TLS": ({"SMTP_PORT": "465"}, "tls"),
    "the port of TLS, as text files have it": ({"SMTP_PORT": " 0465 ", "SMTP_SECURITY": " "}, "tls"),
    "the port of TLS, set by hand": ({"SMTP_PORT": "465", "SMTP_SECURITY": "starttls"}, "starttls"),
    "the port of TLS, without": ({"SMTP_PORT": "465", "SMTP_SECURITY": "none"}, "none"),
    "another port": ({"SMTP_PORT": "2465"}, "starttls"),
}
"""Settings of the mail server, and how the connection to it is secured."""


@pytest.mark.parametrize(("environ", "security"), SECURED.values(), ids=SECURED)
def test_the_port_says_how_the_connection_is_secured_unless_it_is_set(
    environ: dict[str, str], security: str, read: ReadEnv
) -> None:
    assert read(**environ).smtp_security == security


def test_every_time_zone_of_the_machine_is_taken(read: ReadEnv) -> None:
    zones = available_timezones() - {"localtime"}  # Debian's link to the zone of the machine itself

    assert {read(MAIL_TIMEZONE=zone).mail_timezone.key for zone in zones} == zones


@pytest.mark.parametrize(("name", "raw"), INVALID, ids=named)
def test_an_invalid_value_is_named_shown_and_told_what_is_accepted(name: str, raw: str, faults: Faults) -> None:
    (line,) = faults(**(COMPANIONS.get(name, {}) | {name: raw}))

    before, _, accepted = line.partition(": expected ")
    assert before == (f"{name}=(hidden)" if name in SECRETS else f"{name}={raw!r}")
    words = VARIABLES[name].accepted.split("|")
    assert [word for word in words if not re.search(rf"(?<!\d){re.escape(word)}(?!\d)", accepted)] == []


def test_all_faults_are_reported_at_once(faults: Faults) -> None:
    lines = faults(**{name: variable.invalid.split("|")[0] for name, variable in VARIABLES.items()})

    assert sorted(line.partition("=")[0] for line in lines) == sorted(VARIABLES)


def test_they_end_a_process_without_a_traceback(read: ReadEnv, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        read(SMTP_PORT="x", THREADS="0")

    output, said = capsys.readouterr()
    assert (raised.value.code, output, len(said.splitlines())) == (os.EX_CONFIG, "", 2)


SHOWING: dict[str, tuple[dict[str, str], str]] = {
    "another variable is wrong": (SECRETS | {"SMTP_PORT": "x"}, "SMTP_PORT"),
    "the password is missing": ({"SMTP_USERNAME": SECRETS["SMTP_USERNAME"]}, "SMTP_PASSWORD"),
    "the user is missing": ({"SMTP_PASSWORD": SECRETS["SMTP_PASSWORD"]}, "SMTP_USERNAME"),
    **{f"{name} itself is wrong": (SECRETS | {name: f"\0{secret}"}, name) for name, secret in SECRETS.items()},
}


@pytest.mark.parametrize(("environ", "variable"), SHOWING.values(), ids=SHOWING)
def test_no_secret_shows_in_a_fault(environ: dict[str, str], variable: str, faults: Faults) -> None:
    text = "\n".join(faults(**environ))

    assert variable in text
    assert not re.search(SECRET_WORDS, text)


def test_no_secret_shows_in_the_representation_of_the_settings(read: ReadEnv) -> None:
    assert not re.search(SECRET_WORDS, repr(read(**SECRETS)))


def missing(name: str, of: str) -> str:
    return f"{name} is not set: required with {of}"


def lifecycle(deprecated_on: str, sunset_on: str) -> dict[str, str]:
    return LIFECYCLE | {"API_V1_DEPRECATED_ON": deprecated_on, "API_V1_SUNSET_ON": sunset_on}


DEPRECATED, SUNSET, SUCCESSOR = LIFECYCLE
TOO_SOON = "API_V1_SUNSET_ON='{}': expected .*180 days.*"
SERVER = ADDRESSES | {"SMTP_HOST": "mail.example.com"}
SHARED = {"RATE_LIMIT_STORAGE": "redis://localhost"}
CONTRADICTIONS: dict[str, tuple[dict[str, str], list[str]]] = {
    "a mail server without recipients": (SERVER | {"SALES_EMAIL": ""}, [missing("SALES_EMAIL", "SMTP_HOST")]),
    "a mail server without a sender": (SERVER | {"MAIL_FROM": ""}, [missing("MAIL_FROM", "SMTP_HOST")]),
    "a user": ({"SMTP_USERNAME": "x"}, [missing("SMTP_PASSWORD", "SMTP_USERNAME")]),
    "a password": ({"SMTP_PASSWORD": "x"}, [missing("SMTP_USERNAME", "SMTP_PASSWORD")]),
    "what is missing and what is wrong": (
        {"SMTP_HOST": "mail.example.com", "SMTP_PORT": "x", "SMTP_USERNAME": "web"},
        ["SMTP_PORT='x'.*", *(missing(name, "SMTP_HOST") for name in ADDRESSES), "SMTP_PASSWORD is not set.*"],
    ),
    "no deprecation": (LIFECYCLE | {DEPRECATED: ""}, [missing(DEPRECATED, SUNSET)]),
    "no sunset": (LIFECYCLE | {SUNSET: ""}, [missing(SUNSET, DEPRECATED)]),
    "no successor": (LIFECYCLE | {SUCCESSOR: ""}, [missing(SUCCESSOR, DEPRECATED)]),
    **{
        f"{name} alone": ({name: value}, [missing(other, name) for other in LIFECYCLE if other != name])
        for name, value in LIFECYCLE.items()
    },
    "179 days": (lifecycle("2026-01-01", "2026-06-29"), [TOO_SOON.format("2026-06-29")]),
    "the end of the calendar": (lifecycle("9999-12-01", "9999-12-31"), [TOO_SOON.format("9999-12-31")]),
    "workers without a shared storage": (
        {"WORKERS": "2"},
        ["WORKERS='2': expected 1 without RATE_LIMIT_STORAGE.*either set it.*behind nginx, hashed.*"],
    ),
    "workers with metrics": (
        {"WORKERS": "2", "METRICS_BIND": "127.0.0.1:9110"} | SHARED,
        ["WORKERS='2': expected 1 with METRICS_BIND.*run several services.*"],
    ),
}
"""Settings that only together are wrong, and the pattern of each line of their faults."""


@pytest.mark.parametrize(("environ", "patterns"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_only_together_is_wrong_is_refused(environ: dict[str, str], patterns: list[str], faults: Faults) -> None:
    lines = faults(**environ)

    assert_went(patterns, (next((it for it in patterns if re.fullmatch(it, line)), line) for line in lines))


@pytest.mark.parametrize(
    "environ", [lifecycle("2026-01-01", "2026-06-30"), {"WORKERS": "2"} | SHARED], ids=["180 days", "shared storage"]
)
def test_what_is_just_right_together_is_taken(environ: dict[str, str], read: ReadEnv) -> None:
    settings = read(**environ)

    assert {name: str(value_of(settings, name)) for name in environ} == environ


@pytest.mark.parametrize("mail_dir", ["", "file", "file/mail", "not/made/yet"])
def test_a_mail_dir_is_neither_judged_nor_changed(mail_dir: str, read: ReadEnv, directory: Path) -> None:
    (directory / "file").touch()

    assert read(MAIL_DIR=mail_dir).mail_dir == directory / (mail_dir or "var/mail")
    assert [path.name for path in directory.iterdir()] == ["file"]
    (directory / "file").unlink()


MEANT = {"CORS_ORIGIN": "CORS_ORIGINS", "SMTP_USER": "SMTP_USERNAME", "smtp_port": "SMTP_PORT", "LOGLEVEL": "LOG_LEVEL"}
OTHERS = [
    "SMTP_PORT",
    "MAIL",
    "LANG",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "SENTRY_DSN",
    "STATE_DIRECTORY",
]
OTHERS += ["INVOCATION_ID", "JOURNAL_STREAM", "WATCH_MAIL", "HTTP_PROXY", "OTEL_LOG_LEVEL", "PYTHONPATH"]


def test_a_variable_that_looks_like_a_setting_is_told_from_those_of_other_programs() -> None:
    assert misspelt(dict.fromkeys([*MEANT, *OTHERS], "")) == MEANT
