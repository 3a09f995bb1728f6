"""The settings: every variable's default, what it takes, what it refuses and in which words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest

from app.contact.submission import KINDS
from app.mailbox import Mailbox
from app.settings import PRIVATE_DIRECTORY, Settings, SettingsError

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
    """What is known of a variable."""

    default: Any
    accepted: list[str]
    """Words of what the line of a fault says is accepted."""
    valid: dict[str, Any]
    invalid: list[str]


def same(*values: str) -> dict[str, Any]:
    """Values that stay as they are written."""
    return {value: value for value in values}


def numbers(*values: float) -> dict[str, Any]:
    return {str(value): value for value in values}


def one_of(default: str, *others: str, no: list[str]) -> Variable:
    words = [default, *others]
    return Variable(default, words, same(*words), no)


NO_NUMBERS = ("x", "-1", "+1", "1.0", "1e3", "0x10", "1 0", "1_0", "\u0661", "9" * 5000)
NO_MAILBOXES = (
    # no name, or no address beside it
    *("<>", "<a@example.com>", '"" <a@example.com>', '" " <a@example.com>', "Web <>", "Web <web>", "Web a@example.com"),
    # brackets
    *("a b@example.com", "Web <a@example.com", "Web a@example.com>", "Web < a@example.com >", "Web <<a@example.com>>"),
    *("Web <a@example.com> x", "Web <a@example.com> <b@example.com>"),
    # quotes, and what has to stand in them
    *('"Ventas <a@example.com>', 'Ventas" <a@example.com>', '"Ventas\\" <a@example.com>', 'La "web" <a@example.com>'),
    *("Ventas, Uruguay <a@example.com>", "Web (demo) <a@example.com>", "Web: <a@example.com>", "Web; <a@example.com>"),
    "b@example.com <a@example.com>",
    # what no reader shows, or takes for the next field
    *("Web\nBcc: b@example.com <a@example.com>", '"Web\r\nBcc: b@example.com" <a@example.com>', "a@b\nBcc: c@d"),
    *('"Web\\\nBcc: b@example.com" <a@example.com>', "Web\t1 <a@example.com>", "Web\x1b[31m <a@example.com>"),
    *("Web\u202e <a@example.com>", "Web\udcf1 <a@example.com>"),
    # encoded words
    *("=?utf-8?q?a=0D=0ABcc=3A_b=40example.com?= <a@example.com>", '"=?utf-8?q?a?=" <a@example.com>'),
    *('"=\\?utf-8?q?a?=" <a@example.com>', "ñ =?utf-8?q?a?= <a@example.com>"),
    *("=?utf-8?q?a=0D=0ABcc=3A_b?=@example.com", "Web <=?utf-8?q?a=0D=0ABcc=3A_b?=@example.com>"),
)
"""Neither a sender nor recipients."""

A, B = Mailbox("a@example.com"), Mailbox("b@example.com")
WEB = Mailbox("web@example.com", "Formulario web")
TWO_NAMED = 'Ventas <a@example.com>, "Ventas, Uruguay" <b@example.com>,c@example.com'
SENDERS = ["web@example.com", "web@localhost", "la.web+formularios@example.com", "!#$%&'*+/=?^_`{|}~-@example.com"]
ZONES = ["America/Montevideo", "America/Argentina/ComodRivadavia", "America/Port-au-Prince", "Etc/GMT+3", "GB-Eire"]
TWO = {"Ana <a@example.com>, b@example.com": (Mailbox("a@example.com", "Ana"), B)}
OF_A_KIND = Variable(None, ["e-mail addresses", "commas"], TWO, ["ventas"])

VARIABLES: dict[str, Variable] = {
    "SMTP_HOST": Variable(
        None,
        ["host name", "IP address"],
        same("mail.example.com", "localhost", "mail", "192.0.2.1", "2001:db8::1", "mail-1.example"),
        ["mail example", "smtp://mail.example.com", "mail.example.com:587", "192.0.2.1:25", "a/b", "a\nb"],
    ),
    "SMTP_PORT": Variable(587, ["1", "65535"], numbers(1, 25, 465, 65535), ["0", "65536", *NO_NUMBERS]),
    "SMTP_SECURITY": one_of("starttls", "tls", "none", no=["ssl", "STARTTLS", "true", "starttls,tls"]),
    "SMTP_USERNAME": Variable(None, ["text"], same("web@example.com"), ["us\ner", "us\x1b[31mer", "usuario ñ"]),
    "SMTP_PASSWORD": Variable(None, ["text"], same("s3cr3t'\"; $x"), ["pass\nword", "pass\0word"]),
    "SMTP_TIMEOUT": Variable(
        10, ["seconds", "0", "300"], numbers(1, 0.5, 10, 300), ["0", "-1", "x", "nan", "inf", "301", "10s"]
    ),
    "SALES_EMAIL": Variable(
        (Mailbox("ventas@localhost"),),
        ["e-mail addresses", "commas", '"Ventas, Uruguay" <ventas@example.com>'],
        {
            "a@example.com": (A,),
            "a@example.com,b@example.com": (A, B),
            "a@example.com , b@example.com": (A, B),
            TWO_NAMED: (Mailbox(A.address, "Ventas"), Mailbox(B.address, "Ventas, Uruguay"), Mailbox("c@example.com")),
        },
        [
            *("ventas", "a@example.com,", ",a@example.com", "a@example.com,,b@example.com"),
            *("a@example.com;b@example.com", *NO_MAILBOXES),
        ],
    ),
    **dict.fromkeys((f"SALES_EMAIL_{kind.upper()}" for kind in KINDS), OF_A_KIND),
    "MAIL_FROM": Variable(
        Mailbox("web@localhost"),
        ["one e-mail address", "Formulario web <web@example.com>"],
        {
            "Formulario web <web@example.com>": WEB,
            '"Formulario web" <web@example.com>': WEB,
            "  Formulario   web   <web@example.com>": WEB,
            "Pagos Ñandú S.L.<web@example.com>": Mailbox(WEB.address, "Pagos Ñandú S.L."),
            r'"La \"web\" \\ (demo)"  <web@example.com>': Mailbox(WEB.address, r'La "web" \ (demo)'),
            **{address: Mailbox(address) for address in (*SENDERS, "w" * 64 + "@example.com")},
        },
        [
            *("web", "@example.com", "a@example.com,b@example.com", "Web <a@example.com>, Ventas <b@example.com>"),
            *(".web@example.com", "la..web@example.com", "la web@example.com", '"la web"@example.com'),
            *("ñandú@example.com", "w" * 65 + "@example.com", "web@example..com", "web@ñandú.example", *NO_MAILBOXES),
        ],
    ),
    "MAIL_TIMEZONE": Variable(
        ZoneInfo("UTC"),
        ["an IANA time zone such as America/Montevideo"],
        {name: ZoneInfo(name) for name in (*ZONES, "Europe/Madrid", "UTC")},
        [
            *("America/Macondo", "America/MONTEVIDEO", "america/montevideo", "utc", "UTC-3", "-03:00", "España/Madrid"),
            *("Europe", "America/Argentina", "Europe/", "/Europe/Madrid", "/usr/share/zoneinfo/Europe/Madrid"),
            *("Europe//Madrid", "Europe/../Europe/Madrid", "../zoneinfo/Europe/Madrid", "./UTC", ".."),
            *("localtime", "posixrules", "posix/Europe/Madrid", "right/Europe/Madrid", "zone.tab", "Europe/Ma drid"),
            *("Europe\\Madrid", "Europe/Madrid\0", "Europe/Ma\0drid", "Europe/Madrid\udcf1", "A" * 5000),
        ],
    ),
    "PUBLIC_BASE_URL": Variable(
        None,
        ["http", "https"],
        same("https://www.example.com/pago", "http://localhost:8000", "http://[2001:db8::1]:8000")
        | dict.fromkeys(["https://www.example.com", "https://www.example.com/"], "https://www.example.com"),
        [
            *("www.example.com", "ftp://www.example.com", "https://", "https://:443", "https://www.example.com:99999"),
            *("https://www.example.com?a=b", "https://www.example.com/#a", "https://www.example.com//b.example"),
            *("https://www.example.com/..", "https://www.example.com/a/./b", "https://user:pw@www.example.com"),
            *("https://[::1", "https://a b"),
        ],
    ),
    "CORS_ORIGINS": Variable(
        ("*",),
        ["*", "https://", "commas"],
        {
            "*": ("*",),
            "https://www.example.com": ("https://www.example.com",),
            "https://a.example, http://b.example:8080": ("https://a.example", "http://b.example:8080"),
        },
        [
            *("www.example.com", "https://a.example,*", "https://a.example,", "https://a.example/", "null"),
            *("https://a.example/path", "https://*.example.com"),
        ],
    ),
    "TRUSTED_PROXIES": Variable(0, ["number", "0"], numbers(0, 1, 2), [*NO_NUMBERS, "true"]),
    "RATE_LIMIT_STORAGE": Variable(
        None,
        ["redis://", "valkey://"],
        same(
            *("redis://localhost", "redis://:pw@cache:6379/0", "redis://[2001:db8::1]:6379/", "valkey://cache:6379"),
            *("rediss://user:pw@cache?ssl_ca_certs=/etc/ssl/ca.pem", "redis+unix:///run/redis/redis.sock"),
            *("redis+unix://:pw@/run/redis/redis.sock?db=1", "valkeys://cache", "valkey+unix:///run/valkey.sock"),
        ),
        [
            *("memory://x", "memcached://cache:11211", "http://:pw@cache", "localhost:6379", "REDIS://cache", "cache"),
            *("redis:", "redis://", "redis://:pw@", "redis:///0", "redis://cache:notaport", "redis://cache:65536"),
            *("redis://cache:6379/cache", "redis://:p/w@cache", "redis://cache#1", "redis://ca che", "redis://cache\n"),
            *(" redis://cache", "redis://[::1", "unix:///run/redis.sock"),
            *("redis+unix://", "redis+unix:///", "redis+unix://run/redis.sock"),
        ],
    ),
    "API_NAME": Variable("Public API", ["text"], same("Pagos Ñandú"), ["a\nb", "a\0b"]),
    "API_V1_DEPRECATED_ON": Variable(
        None,
        ["YYYY-MM-DD"],
        {"2026-01-01": date(2026, 1, 1), "2025-02-28": date(2025, 2, 28)},
        ["2026-13-01", "2026-02-29", "01/01/2026", "20260101", "2026-W01-1", "2026-1-1", "soon"],
    ),
    "API_V1_SUNSET_ON": Variable(
        None,
        ["YYYY-MM-DD"],
        {"2026-06-30": date(2026, 6, 30), "2028-02-29": date(2028, 2, 29)},
        ["2026-13-01", "2026-09-31", "2026-06-30T00:00", "never"],
    ),
    "API_V1_SUCCESSOR": Variable(
        None,
        ["http", "https", "path"],
        same("/api/v2", "https://www.example.com/api/v2", "http://localhost/v2?a=b#c"),
        ["api/v2", "v2", "javascript:x", "/v2>; rel=x", "/v2>x", "/v2<x", '/v2"', "/a b", "/a\nb", "https://"],
    ),
    "LOG_FORMAT": one_of("text", "json", no=["JSON", "xml"]),
    "LOG_LEVEL": one_of("info", "debug", "warning", "error", "critical", no=["INFO", "trace", "10"]),
    "BIND": Variable(
        "127.0.0.1:8000",
        ["HOST:PORT", "unix:PATH"],
        same("127.0.0.1:8000", "0.0.0.0:80", "localhost:8000", "[::1]:8000", "unix:/run/web/app.sock"),
        ["127.0.0.1", "8000", ":8000", "127.0.0.1:x", "127.0.0.1:65536", "unix:", "::1:8000", "http://localhost:80"],
    ),
    "METRICS_BIND": Variable(
        None,
        ["HOST:PORT"],
        same("127.0.0.1:9100", "localhost:9100", "[::1]:9100"),
        ["9100", ":9100", "127.0.0.1:x", "unix:/run/metrics.sock", "http://localhost:9100"],
    ),
    "WORKERS": Variable(1, ["number", "1"], numbers(1, 4), ["0", *NO_NUMBERS]),
    "THREADS": Variable(32, ["number", "1"], numbers(1, 32, 64), ["0", *NO_NUMBERS]),
}
SECRETS = {
    "SMTP_USERNAME": "account-of-the-mailbox",
    "SMTP_PASSWORD": "hunter2-of-the-mailbox",
    "RATE_LIMIT_STORAGE": "redis://limiter:hunter2-of-the-cache@cache:6379/0",
}
"""Variables whose values are never shown."""
SECRET_WORDS = ("account-of-the-mailbox", "hunter2")

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


def values(which: str) -> list[Any]:
    """Every variable with each of these values."""
    return [
        pytest.param(name, raw, id=f"{name}={raw[:40]!a}")
        for name, variable in VARIABLES.items()
        for raw in getattr(variable, which)
    ]


def value_of(settings: Settings, name: str) -> Any:
    return getattr(settings, name.lower())


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


@pytest.mark.parametrize(("name", "raw"), values("valid"))
def test_a_valid_value_is_taken(name: str, raw: str, read: ReadEnv) -> None:
    settings = read(**(COMPANIONS.get(name, {}) | {name: raw}))

    assert value_of(settings, name) == VARIABLES[name].valid[raw]


def test_every_time_zone_of_the_machine_is_taken(read: ReadEnv) -> None:
    zones = available_timezones() - {"localtime"}  # Debian's link to the zone of the machine itself

    assert {read(MAIL_TIMEZONE=zone).mail_timezone.key for zone in zones} == zones


@pytest.mark.parametrize(("name", "raw"), values("invalid"))
def test_an_invalid_value_is_named_shown_and_told_what_is_accepted(name: str, raw: str, faults: Faults) -> None:
    (line,) = faults(**(COMPANIONS.get(name, {}) | {name: raw}))

    before, _, accepted = line.partition(": expected ")
    assert before == (f"{name}=(hidden)" if name in SECRETS else f"{name}={raw!r}")
    assert [word for word in VARIABLES[name].accepted if word not in accepted] == []


def test_all_faults_are_reported_at_once(faults: Faults) -> None:
    lines = faults(**{name: variable.invalid[0] for name, variable in VARIABLES.items()})

    assert sorted(line.partition("=")[0] for line in lines) == sorted(VARIABLES)


def test_they_end_a_process_without_a_traceback(read: ReadEnv) -> None:
    with pytest.raises(SystemExit) as raised:
        read(SMTP_PORT="x", THREADS="0")

    assert isinstance(raised.value.code, str)
    assert len(raised.value.code.splitlines()) == 2


SHOWING: dict[str, tuple[dict[str, str], str]] = {
    "another variable is wrong": (SECRETS | {"SMTP_PORT": "x"}, "SMTP_PORT"),
    "the password is missing": ({"SMTP_USERNAME": SECRETS["SMTP_USERNAME"]}, "SMTP_PASSWORD"),
    "the user is missing": ({"SMTP_PASSWORD": SECRETS["SMTP_PASSWORD"]}, "SMTP_USERNAME"),
    **{f"{name} itself is wrong": (SECRETS | {name: f"\0{secret}"}, name) for name, secret in SECRETS.items()},
}


@pytest.mark.parametrize(("environ", "named"), SHOWING.values(), ids=SHOWING)
def test_no_secret_shows_in_a_fault(environ: dict[str, str], named: str, faults: Faults) -> None:
    text = "\n".join(faults(**environ))

    assert named in text
    assert [word for word in SECRET_WORDS if word in text] == []


def test_no_secret_shows_in_the_representation_of_the_settings(read: ReadEnv) -> None:
    settings = read(**SECRETS)

    assert settings.smtp_password == SECRETS["SMTP_PASSWORD"]
    assert [word for word in SECRET_WORDS if word in f"{settings!r} {settings}"] == []


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
    "the same day": (lifecycle("2026-01-01", "2026-01-01"), [TOO_SOON.format("2026-01-01")]),
    "the day before": (lifecycle("2026-01-01", "2025-12-31"), [TOO_SOON.format("2025-12-31")]),
    "the end of the calendar": (lifecycle("9999-12-01", "9999-12-31"), [TOO_SOON.format("9999-12-31")]),
    "workers without a shared storage": (
        {"WORKERS": "2"},
        ["WORKERS='2': expected 1 without RATE_LIMIT_STORAGE.*either set it.*behind nginx's hash.*"],
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

    assert len(lines) == len(patterns)
    assert [line for line, pattern in zip(lines, patterns, strict=True) if not re.fullmatch(pattern, line)] == []


@pytest.mark.parametrize(
    "environ", [lifecycle("2026-01-01", "2026-06-30"), {"WORKERS": "2"} | SHARED], ids=["180 days", "shared storage"]
)
def test_what_is_just_right_together_is_taken(environ: dict[str, str], read: ReadEnv) -> None:
    settings = read(**environ)

    assert {name: str(value_of(settings, name)) for name in environ} == environ


class TestMailDir:
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """With a file in the place of the default's parent, and a directory that others use too."""
        (tmp_path / "var").touch()
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared").chmod(0o1777)
        return tmp_path

    @pytest.mark.parametrize("mail_dir", ["mail", "not/made/yet", "/proc/self"])
    def test_nothing_is_made_or_changed_and_the_path_becomes_absolute(
        self, mail_dir: str, read: ReadEnv, directory: Path
    ) -> None:
        (directory / "mail").mkdir(mode=0o755)
        before = {path: path.stat().st_ctime_ns for path in directory.rglob("*")}

        assert read(MAIL_DIR=mail_dir).mail_dir == directory / mail_dir

        assert {path: path.stat().st_ctime_ns for path in directory.rglob("*")} == before

    REFUSED: dict[str, dict[str, str]] = {  # noqa: RUF012 - a table that nothing changes
        "the default below a file": {},
        "a file": {"MAIL_DIR": "var"},
        "below a file": {"MAIL_DIR": "var/spool"},
        "one that others use too": {"MAIL_DIR": "shared"},
        "one whose parent cannot be written": {"MAIL_DIR": "/proc/self/not/made"},
    }

    @pytest.mark.parametrize("environ", REFUSED.values(), ids=REFUSED)
    def test_what_cannot_be_private_or_made_is_a_fault_among_others(
        self, environ: dict[str, str], faults: Faults
    ) -> None:
        port, line = faults(SMTP_PORT="smtp", **environ)

        assert port.startswith("SMTP_PORT=")
        assert line == f"MAIL_DIR='{environ.get('MAIL_DIR', 'var/mail')}': expected {PRIVATE_DIRECTORY}"

    @pytest.fixture
    def volume(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A directory of another user, as a mounted volume often is."""
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
        return directory / "shared"

    @pytest.mark.parametrize("mode", [0o770, 0o2770, 0o700], ids=oct)
    def test_a_volume_that_this_user_can_write_is_taken(self, read: ReadEnv, volume: Path, mode: int) -> None:
        volume.chmod(mode)

        assert read(MAIL_DIR=str(volume)).mail_dir == volume

    @pytest.mark.parametrize("mode", [0o777, 0o774, 0o771, 0o1777, 0o755], ids=oct)
    def test_a_volume_that_others_can_reach_is_a_fault(self, faults: Faults, volume: Path, mode: int) -> None:
        volume.chmod(mode)

        assert faults(MAIL_DIR=str(volume)) == [f"MAIL_DIR='{volume}': expected {PRIVATE_DIRECTORY}"]

    def test_a_volume_that_this_user_cannot_write_is_a_fault(
        self, faults: Faults, volume: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        volume.chmod(0o770)
        monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)  # root may write everywhere

        assert faults(MAIL_DIR=str(volume)) == [f"MAIL_DIR='{volume}': expected {PRIVATE_DIRECTORY}"]
