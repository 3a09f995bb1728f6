"""The settings: every variable's default, what it takes, what it refuses and in which words."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from app.contact.submission import KINDS
from app.mailbox import Mailbox
from app.settings import PRIVATE_DIRECTORY, Settings, SettingsError

ReadEnv = Callable[..., Settings]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty one, which stays so: reading settings makes nothing."""
    return tmp_path_factory.mktemp("settings")


@pytest.fixture
def read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> ReadEnv:
    """Reads settings from nothing but the given variables, in a working directory of the tests."""
    monkeypatch.chdir(directory)

    def read(**environ: str) -> Settings:
        return Settings.from_env(environ)

    return read


@pytest.fixture
def faults(read: ReadEnv) -> Callable[..., list[str]]:
    def faults(**environ: str) -> list[str]:
        with pytest.raises(SettingsError) as raised:
            read(**environ)
        return str(raised.value).splitlines()

    return faults


Faults = Callable[..., list[str]]

ADDRESSES = {"SALES_EMAIL": "ventas@example.com", "MAIL_FROM": "web@example.com"}
LIFECYCLE = {
    "API_V1_DEPRECATED_ON": "2026-01-01",
    "API_V1_SUNSET_ON": "2026-06-30",
    "API_V1_SUCCESSOR": "/api/v2",
}
COMPANIONS = {
    "SMTP_HOST": ADDRESSES,
    "SMTP_USERNAME": {"SMTP_PASSWORD": "x"},
    "SMTP_PASSWORD": {"SMTP_USERNAME": "x"},
    "WORKERS": {"RATE_LIMIT_STORAGE": "redis://localhost"},
    **dict.fromkeys(LIFECYCLE, LIFECYCLE),
}
"""What has to be set along with a variable."""

OF_A_KIND = [f"SALES_EMAIL_{kind.upper()}" for kind in KINDS]

TWO_MAILBOXES = (Mailbox("a@example.com", "Ana"), Mailbox("b@example.com"))

DEFAULTS = {
    **dict.fromkeys(OF_A_KIND),
    "SMTP_HOST": None,
    "SMTP_PORT": 587,
    "SMTP_SECURITY": "starttls",
    "SMTP_USERNAME": None,
    "SMTP_PASSWORD": None,
    "SMTP_TIMEOUT": 10,
    "MAIL_TIMEZONE": ZoneInfo("UTC"),
    "PUBLIC_BASE_URL": None,
    "CORS_ORIGINS": ("*",),
    "TRUSTED_PROXIES": 0,
    "RATE_LIMIT_STORAGE": None,
    "API_NAME": "Public API",
    "API_V1_DEPRECATED_ON": None,
    "API_V1_SUNSET_ON": None,
    "API_V1_SUCCESSOR": None,
    "LOG_FORMAT": "text",
    "LOG_LEVEL": "info",
    "BIND": "127.0.0.1:8000",
    "METRICS_BIND": None,
    "WORKERS": 1,
    "THREADS": 32,
}

VALID: dict[str, dict[str, Any]] = {
    "SMTP_HOST": {
        name: name for name in ("mail.example.com", "localhost", "mail", "192.0.2.1", "2001:db8::1", "mail-1.example")
    },
    "SMTP_PORT": {"1": 1, "25": 25, "465": 465, "65535": 65535},
    "SMTP_SECURITY": {"starttls": "starttls", "tls": "tls", "none": "none"},
    "SMTP_USERNAME": {"web@example.com": "web@example.com"},
    "SMTP_PASSWORD": {"s3cr3t'\"; $x": "s3cr3t'\"; $x"},
    "SMTP_TIMEOUT": {"1": 1, "0.5": 0.5, "10": 10, "300": 300},
    "SALES_EMAIL": {
        "ventas@example.com": (Mailbox("ventas@example.com"),),
        "a@example.com,b@example.com": (Mailbox("a@example.com"), Mailbox("b@example.com")),
        "a@example.com , b@example.com": (Mailbox("a@example.com"), Mailbox("b@example.com")),
        'Ventas <a@example.com>, "Ventas, Uruguay" <b@example.com>,c@example.com': (
            Mailbox("a@example.com", "Ventas"),
            Mailbox("b@example.com", "Ventas, Uruguay"),
            Mailbox("c@example.com"),
        ),
    },
    **{name: {"Ana <a@example.com>, b@example.com": TWO_MAILBOXES} for name in OF_A_KIND},
    "MAIL_FROM": {
        "Formulario web <web@example.com>": Mailbox("web@example.com", "Formulario web"),
        "Pagos Ñandú S.L.<web@example.com>": Mailbox("web@example.com", "Pagos Ñandú S.L."),
        '"Formulario web" <web@example.com>': Mailbox("web@example.com", "Formulario web"),
        r'"La \"web\" \\ (demo)"  <web@example.com>': Mailbox("web@example.com", r'La "web" \ (demo)'),
        "  Dos   espacios   <web@example.com>": Mailbox("web@example.com", "Dos espacios"),
    }
    | {
        address: Mailbox(address)
        for address in (
            "web@example.com",
            "web@localhost",
            "la.web+formularios@example.com",
            "!#$%&'*+/=?^_`{|}~-@example.com",
            "w" * 64 + "@example.com",
        )
    },
    "MAIL_TIMEZONE": {
        name: ZoneInfo(name)
        for name in (
            "America/Montevideo",
            "America/Argentina/ComodRivadavia",
            "America/Port-au-Prince",
            "Etc/GMT+3",
            "Europe/Madrid",
            "GB-Eire",
            "UTC",
        )
    },
    "PUBLIC_BASE_URL": {
        "https://www.example.com": "https://www.example.com",
        "https://www.example.com/": "https://www.example.com",
        "http://localhost:8000": "http://localhost:8000",
        "http://[2001:db8::1]:8000": "http://[2001:db8::1]:8000",
        "https://www.example.com/pago": "https://www.example.com/pago",
    },
    "CORS_ORIGINS": {
        "*": ("*",),
        "https://www.example.com": ("https://www.example.com",),
        "https://a.example, http://b.example:8080": ("https://a.example", "http://b.example:8080"),
    },
    "TRUSTED_PROXIES": {"0": 0, "1": 1, "2": 2},
    "RATE_LIMIT_STORAGE": {
        address: address
        for address in (
            "redis://localhost",
            "redis://:pw@cache:6379/0",
            "redis://[2001:db8::1]:6379/",
            "rediss://user:pw@cache?ssl_ca_certs=/etc/ssl/ca.pem",
            "redis+unix:///run/redis/redis.sock",
            "redis+unix://:pw@/run/redis/redis.sock?db=1",
            "valkey://cache:6379",
            "valkeys://cache",
            "valkey+unix:///run/valkey.sock",
        )
    },
    "API_NAME": {"Pagos Ñandú": "Pagos Ñandú"},
    "API_V1_DEPRECATED_ON": {"2026-01-01": date(2026, 1, 1), "2025-02-28": date(2025, 2, 28)},
    "API_V1_SUNSET_ON": {"2026-06-30": date(2026, 6, 30), "2028-02-29": date(2028, 2, 29)},
    "API_V1_SUCCESSOR": {
        address: address for address in ("/api/v2", "https://www.example.com/api/v2", "http://localhost/v2?a=b#c")
    },
    "LOG_FORMAT": {"text": "text", "json": "json"},
    "LOG_LEVEL": {level: level for level in ("debug", "info", "warning", "error", "critical")},
    "BIND": {
        address: address
        for address in ("127.0.0.1:8000", "0.0.0.0:80", "localhost:8000", "[::1]:8000", "unix:/run/web/app.sock")
    },
    "METRICS_BIND": {address: address for address in ("127.0.0.1:9100", "localhost:9100", "[::1]:9100")},
    "WORKERS": {"1": 1, "4": 4},
    "THREADS": {"1": 1, "32": 32, "64": 64},
}

NUMBERS = ("x", "-1", "+1", "1.0", "1e3", "0x10", "1 0", "1_0", "\u0661", "9" * 5000)
NAMES_REFUSED = (
    "<>",
    "<a@example.com>",
    '"" <a@example.com>',
    '" " <a@example.com>',
    "Web <>",
    "Web <web>",
    "Web a@example.com",
    "a b@example.com",
    "Web <a@example.com",
    "Web a@example.com>",
    "Web < a@example.com >",
    "Web <a@example.com> x",
    "Web <a@example.com> <b@example.com>",
    "Web <<a@example.com>>",
    "Ventas, Uruguay <a@example.com>",
    '"Ventas <a@example.com>',
    'Ventas" <a@example.com>',
    '"Ventas\\" <a@example.com>',
    'La "web" <a@example.com>',
    "Web (demo) <a@example.com>",
    "Web: <a@example.com>",
    "Web; <a@example.com>",
    "b@example.com <a@example.com>",
    "Web\nBcc: b@example.com <a@example.com>",
    '"Web\r\nBcc: b@example.com" <a@example.com>',
    '"Web\\\nBcc: b@example.com" <a@example.com>',
    "Web\t1 <a@example.com>",
    "Web\x1b[31m <a@example.com>",
    "Web\u202e <a@example.com>",
    "Web\udcf1 <a@example.com>",
    "=?utf-8?q?a=0D=0ABcc=3A_b=40example.com?= <a@example.com>",
    '"=?utf-8?q?a?=" <a@example.com>',
    '"=\\?utf-8?q?a?=" <a@example.com>',
    "ñ =?utf-8?q?a?= <a@example.com>",
    "=?utf-8?q?a=0D=0ABcc=3A_b?=@example.com",
    "Web <=?utf-8?q?a=0D=0ABcc=3A_b?=@example.com>",
)
"""Neither a sender nor a recipient."""

INVALID = {
    "SMTP_HOST": ("mail example", "smtp://mail.example.com", "mail.example.com:587", "192.0.2.1:25", "a/b", "a\nb"),
    "SMTP_PORT": ("0", "65536", *NUMBERS),
    "SMTP_SECURITY": ("ssl", "STARTTLS", "true", "starttls,tls"),
    "SMTP_TIMEOUT": ("0", "-1", "x", "nan", "inf", "301", "10s"),
    "SALES_EMAIL": (
        "ventas",
        "a@example.com,",
        ",a@example.com",
        "a@example.com,,b@example.com",
        "a@example.com;b@example.com",
        "a@b\nBcc: c@d",
        *NAMES_REFUSED,
    ),
    **dict.fromkeys(OF_A_KIND, ("ventas",)),
    "MAIL_FROM": (
        "web",
        "@example.com",
        "a@example.com,b@example.com",
        "Web <a@example.com>, Ventas <b@example.com>",
        "a@b\nBcc: c@d",
        *NAMES_REFUSED,
        ".web@example.com",
        "la..web@example.com",
        "la web@example.com",
        '"la web"@example.com',
        "ñandú@example.com",
        "w" * 65 + "@example.com",
        "web@example..com",
        "web@ñandú.example",
    ),
    "MAIL_TIMEZONE": (
        "America/Macondo",
        "America/MONTEVIDEO",
        "america/montevideo",
        "utc",
        "UTC-3",
        "-03:00",
        "Europe",
        "America/Argentina",
        "Europe/",
        "/Europe/Madrid",
        "/usr/share/zoneinfo/Europe/Madrid",
        "Europe//Madrid",
        "Europe/../Europe/Madrid",
        "../zoneinfo/Europe/Madrid",
        "./UTC",
        "..",
        "localtime",
        "posixrules",
        "posix/Europe/Madrid",
        "right/Europe/Madrid",
        "zone.tab",
        "Europe/Ma drid",
        "Europe\\Madrid",
        "Europe/Madrid\0",
        "Europe/Ma\0drid",
        "España/Madrid",
        "Europe/Madrid\udcf1",
        "A" * 5000,
    ),
    "PUBLIC_BASE_URL": (
        "www.example.com",
        "ftp://www.example.com",
        "https://",
        "https://:443",
        "https://www.example.com:99999",
        "https://www.example.com?a=b",
        "https://www.example.com/#a",
        "https://www.example.com//b.example",
        "https://www.example.com/..",
        "https://www.example.com/a/./b",
        "https://user:pw@www.example.com",
        "https://[::1",
        "https://a b",
    ),
    "CORS_ORIGINS": (
        "www.example.com",
        "https://a.example,*",
        "https://a.example,",
        "https://a.example/",
        "https://a.example/path",
        "null",
        "https://*.example.com",
    ),
    "TRUSTED_PROXIES": (*NUMBERS, "true"),
    "API_NAME": ("a\nb", "a\0b"),
    "API_V1_DEPRECATED_ON": ("2026-13-01", "2026-02-29", "01/01/2026", "20260101", "2026-W01-1", "2026-1-1", "soon"),
    "API_V1_SUNSET_ON": ("2026-13-01", "2026-09-31", "2026-06-30T00:00", "never"),
    "API_V1_SUCCESSOR": (
        "api/v2",
        "v2",
        "javascript:x",
        "/v2>; rel=x",
        "/v2>x",
        "/v2<x",
        '/v2"',
        "/a b",
        "/a\nb",
        "https://",
    ),
    "LOG_FORMAT": ("JSON", "xml"),
    "LOG_LEVEL": ("INFO", "trace", "10"),
    "BIND": (
        "127.0.0.1",
        "8000",
        ":8000",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "unix:",
        "::1:8000",
        "http://localhost:80",
    ),
    "METRICS_BIND": ("9100", ":9100", "127.0.0.1:x", "unix:/run/metrics.sock", "http://localhost:9100"),
    "WORKERS": ("0", *NUMBERS),
    "THREADS": ("0", *NUMBERS),
}
INVALID_SECRETS = {
    "SMTP_USERNAME": ("us\ner", "us\x1b[31mer", "usuario ñ"),
    "SMTP_PASSWORD": ("pass\nword", "pass\0word"),
    "RATE_LIMIT_STORAGE": (
        "memory://x",
        "memcached://cache:11211",
        "http://:pw@cache",
        "localhost:6379",
        "redis:",
        "redis://",
        "redis://:pw@",
        "redis:///0",
        "redis://cache:notaport",
        "redis://cache:65536",
        "redis://cache:6379/cache",
        "redis://:p/w@cache",
        "redis://cache#1",
        "redis://ca che",
        "redis://cache\n",
        "redis://[::1",
        "redis+unix://",
        "redis+unix:///",
        "redis+unix://run/redis.sock",
        "unix:///run/redis.sock",
        "REDIS://cache",
        " redis://cache",
        "cache",
    ),
}

ACCEPTED = {
    "SMTP_HOST": ["host name", "IP address"],
    "SMTP_PORT": ["1", "65535"],
    "SMTP_SECURITY": ["starttls", "tls", "none"],
    "SMTP_USERNAME": ["text"],
    "SMTP_PASSWORD": ["text"],
    "SMTP_TIMEOUT": ["seconds", "0", "300"],
    "SALES_EMAIL": ["e-mail addresses", "commas", '"Ventas, Uruguay" <ventas@example.com>'],
    **{name: ["e-mail addresses", "commas"] for name in OF_A_KIND},
    "MAIL_FROM": ["one e-mail address", "Formulario web <web@example.com>"],
    "MAIL_TIMEZONE": ["an IANA time zone such as America/Montevideo"],
    "PUBLIC_BASE_URL": ["http", "https"],
    "CORS_ORIGINS": ["*", "https://", "commas"],
    "TRUSTED_PROXIES": ["number", "0"],
    "RATE_LIMIT_STORAGE": ["redis://", "valkey://"],
    "API_NAME": ["text"],
    "API_V1_DEPRECATED_ON": ["YYYY-MM-DD"],
    "API_V1_SUNSET_ON": ["YYYY-MM-DD"],
    "API_V1_SUCCESSOR": ["http", "https", "path"],
    "LOG_FORMAT": ["text", "json"],
    "LOG_LEVEL": ["debug", "info", "warning", "error", "critical"],
    "BIND": ["HOST:PORT", "unix:PATH"],
    "METRICS_BIND": ["HOST:PORT"],
    "WORKERS": ["number", "1"],
    "THREADS": ["number", "1"],
}
"""What the line of a fault says is accepted."""


def pairs(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, raw, id=f"{name}={raw[:40]!a}") for name, values in table.items() for raw in values]


def value_of(settings: Settings, name: str) -> Any:
    return getattr(settings, name.lower())


class TestDefaults:
    @pytest.mark.parametrize(("name", "default"), DEFAULTS.items(), ids=DEFAULTS)
    def test_a_variable_that_is_not_set_has_its_default(self, name: str, default: Any, read: ReadEnv) -> None:
        assert value_of(read(), name) == default

    @pytest.mark.parametrize(("name", "default"), DEFAULTS.items(), ids=DEFAULTS)
    @pytest.mark.parametrize("empty", ["", "  "], ids=["empty", "white space"])
    def test_an_empty_variable_counts_as_not_set(self, name: str, default: Any, empty: str, read: ReadEnv) -> None:
        assert value_of(read(**{name: empty}), name) == default

    @pytest.mark.parametrize("environ", [{}, {"MAIL_DIR": ""}], ids=["not set", "empty"])
    def test_mail_is_stored_below_the_working_directory(
        self, environ: dict[str, str], read: ReadEnv, directory: Path
    ) -> None:
        assert read(**environ).mail_dir == directory / "var" / "mail"

    def test_variables_of_other_programs_are_ignored(self, read: ReadEnv) -> None:
        assert read(PATH="/bin", SMTP_HOSTS="?", smtp_port="?") == read()


@pytest.mark.parametrize(("name", "raw"), pairs(VALID))
def test_a_valid_value_is_taken(name: str, raw: str, read: ReadEnv) -> None:
    environ = COMPANIONS.get(name, {}) | {name: raw}
    if name == "API_V1_SUNSET_ON":
        environ["API_V1_DEPRECATED_ON"] = "2025-01-01"

    settings = read(**environ)

    assert value_of(settings, name) == VALID[name][raw]


def test_every_time_zone_of_the_machine_is_taken(read: ReadEnv) -> None:
    zones = available_timezones() - {"localtime"}  # Debian's link to the zone of the machine itself

    assert {read(MAIL_TIMEZONE=zone).mail_timezone.key for zone in zones} == zones


class TestFaults:
    @pytest.mark.parametrize(("name", "raw"), pairs(INVALID))
    def test_an_invalid_value_stops_the_start_with_its_name_itself_and_what_is_accepted(
        self, name: str, raw: str, faults: Faults
    ) -> None:
        lines = faults(**(COMPANIONS.get(name, {}) | {name: raw}))

        assert len(lines) == 1
        before, _, accepted = lines[0].partition(": expected ")
        assert before == f"{name}={raw!r}"
        assert [word for word in ACCEPTED[name] if word not in accepted] == []

    @pytest.mark.parametrize(("name", "raw"), pairs(INVALID_SECRETS))
    def test_an_invalid_secret_is_named_and_not_shown(self, name: str, raw: str, faults: Faults) -> None:
        lines = faults(**(COMPANIONS.get(name, {}) | {name: raw}))

        assert len(lines) == 1
        before, _, accepted = lines[0].partition(": expected ")
        assert before == f"{name}=(hidden)"
        assert [word for word in ACCEPTED[name] if word not in accepted] == []

    def test_all_are_reported_at_once(self, faults: Faults) -> None:
        environ = {name: values[0] for name, values in (INVALID | INVALID_SECRETS).items()}

        lines = faults(**environ)

        assert sorted(line.partition("=")[0] for line in lines) == sorted(environ)

    def test_what_is_missing_is_reported_along_with_what_is_wrong(self, faults: Faults) -> None:
        lines = faults(SMTP_HOST="mail.example.com", SMTP_PORT="x", SMTP_USERNAME="web")

        assert [line.partition(" ")[0].partition("=")[0] for line in lines] == [
            "SMTP_PORT",
            "SALES_EMAIL",
            "MAIL_FROM",
            "SMTP_PASSWORD",
        ]

    def test_they_end_a_process_without_a_traceback(self, read: ReadEnv) -> None:
        with pytest.raises(SystemExit) as raised:
            read(SMTP_PORT="x", THREADS="0")

        assert isinstance(raised.value.code, str)
        assert len(raised.value.code.splitlines()) == 2


class TestSecrets:
    SECRETS = {  # noqa: RUF012 - a table that nothing changes
        "SMTP_USERNAME": "account-of-the-mailbox",
        "SMTP_PASSWORD": "hunter2-of-the-mailbox",
        "RATE_LIMIT_STORAGE": "redis://limiter:hunter2-of-the-cache@cache:6379/0",
    }
    WORDS = ("account-of-the-mailbox", "hunter2")

    def test_they_do_not_show_in_the_fault_of_another_variable(self, faults: Faults) -> None:
        text = "\n".join(faults(**self.SECRETS, SMTP_PORT="x"))

        assert [word for word in self.WORDS if word in text] == []

    @pytest.mark.parametrize("name", ["SMTP_USERNAME", "SMTP_PASSWORD"])
    def test_they_do_not_show_when_the_other_one_is_missing(self, name: str, faults: Faults) -> None:
        text = "\n".join(faults(**{name: self.SECRETS[name]}))

        assert [word for word in self.WORDS if word in text] == []

    @pytest.mark.parametrize("name", SECRETS)
    def test_they_do_not_show_in_their_own_fault(self, name: str, faults: Faults) -> None:
        text = "\n".join(faults(**(self.SECRETS | {name: f"\0{self.SECRETS[name]}"})))

        assert name in text
        assert [word for word in self.WORDS if word in text] == []

    def test_they_do_not_show_in_the_representation_of_the_settings(self, read: ReadEnv) -> None:
        settings = read(**self.SECRETS)

        assert settings.smtp_password == self.SECRETS["SMTP_PASSWORD"]
        assert [word for word in self.WORDS if word in f"{settings!r} {settings}"] == []


class TestCombinations:
    @pytest.mark.parametrize("missing", ADDRESSES)
    def test_a_mail_server_needs_sender_and_recipient(self, missing: str, faults: Faults) -> None:
        lines = faults(SMTP_HOST="mail.example.com", **(ADDRESSES | {missing: ""}))

        assert lines == [f"{missing} is not set: required with SMTP_HOST"]

    def test_without_a_mail_server_neither_is_needed(self, read: ReadEnv) -> None:
        settings = read()

        assert settings.sales_email
        assert settings.mail_from

    @pytest.mark.parametrize(
        ("present", "missing"), [("SMTP_USERNAME", "SMTP_PASSWORD"), ("SMTP_PASSWORD", "SMTP_USERNAME")]
    )
    def test_user_and_password_come_together(self, present: str, missing: str, faults: Faults) -> None:
        assert faults(**{present: "x"}) == [f"{missing} is not set: required with {present}"]

    @pytest.mark.parametrize("missing", LIFECYCLE)
    def test_a_deprecation_without_one_of_its_three_variables_is_refused(self, missing: str, faults: Faults) -> None:
        lines = faults(**(LIFECYCLE | {missing: ""}))

        assert len(lines) == 1
        assert lines[0].startswith(f"{missing} is not set: required with API_V1_")

    @pytest.mark.parametrize("present", LIFECYCLE)
    def test_one_of_the_three_alone_names_the_other_two(self, present: str, faults: Faults) -> None:
        lines = faults(**{present: LIFECYCLE[present]})

        assert {line.partition(" ")[0] for line in lines} == LIFECYCLE.keys() - {present}

    def test_a_sunset_after_180_days_is_taken(self, read: ReadEnv) -> None:
        settings = read(**LIFECYCLE)

        assert settings.api_v1_sunset_on == date(2026, 6, 30)

    @pytest.mark.parametrize(
        ("deprecated_on", "sunset_on"),
        [
            ("2026-01-01", "2026-06-29"),
            ("2026-01-01", "2026-01-01"),
            ("2026-01-01", "2025-12-31"),
            ("9999-12-01", "9999-12-31"),
        ],
        ids=["179 days", "the same day", "the day before", "at the end of the calendar"],
    )
    def test_a_sunset_before_180_days_is_refused(self, deprecated_on: str, sunset_on: str, faults: Faults) -> None:
        lines = faults(**(LIFECYCLE | {"API_V1_DEPRECATED_ON": deprecated_on, "API_V1_SUNSET_ON": sunset_on}))

        assert len(lines) == 1
        assert lines[0].startswith(f"API_V1_SUNSET_ON='{sunset_on}': expected ")
        assert "180 days" in lines[0]

    @pytest.mark.parametrize(
        ("environ", "begin", "ways"),
        [
            ({}, "expected 1 without RATE_LIMIT_STORAGE", ("either set it", "behind nginx's hash")),
            (
                {"RATE_LIMIT_STORAGE": "redis://localhost", "METRICS_BIND": "127.0.0.1:9110"},
                "expected 1 with METRICS_BIND",
                ("run several services",),
            ),
        ],
        ids=["without a shared storage", "with metrics"],
    )
    def test_several_workers_are_refused(
        self, faults: Faults, environ: dict[str, str], begin: str, ways: tuple[str, ...]
    ) -> None:
        (line,) = faults(WORKERS="2", **environ)

        assert line.startswith(f"WORKERS='2': {begin}")
        assert [way for way in ways if way not in line] == []

    def test_several_workers_are_taken_with_a_shared_storage(self, read: ReadEnv) -> None:
        assert read(WORKERS="2", RATE_LIMIT_STORAGE="redis://localhost").workers == 2


class TestMailDir:
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        return tmp_path

    def test_a_relative_one_is_below_the_working_directory(self, read: ReadEnv, tmp_path: Path) -> None:
        assert read(MAIL_DIR="mail").mail_dir == tmp_path / "mail"

    @pytest.mark.parametrize("mail_dir", ["mail", "not/made/yet", "/proc/self"])
    def test_nothing_is_made_or_changed(self, mail_dir: str, read: ReadEnv, tmp_path: Path) -> None:
        directory = tmp_path / "mail"
        directory.mkdir(mode=0o755)
        before = directory.stat().st_ctime_ns

        read(MAIL_DIR=mail_dir)

        assert list(tmp_path.rglob("*")) == [directory]
        assert directory.stat().st_ctime_ns == before

    def test_one_that_others_use_too_is_a_fault(self, faults: Faults, tmp_path: Path) -> None:
        directory = tmp_path / "mail"
        directory.mkdir()
        directory.chmod(0o1777)

        assert faults(MAIL_DIR=str(directory)) == [f"MAIL_DIR='{directory}': expected {PRIVATE_DIRECTORY}"]

    @pytest.fixture
    def volume(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A directory of another user, as a mounted volume often is."""
        directory = tmp_path / "volume"
        directory.mkdir()
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
        return directory

    @pytest.mark.parametrize("mode", [0o770, 0o2770, 0o700])
    def test_one_of_another_user_that_this_user_can_write_is_taken(
        self, read: ReadEnv, volume: Path, mode: int
    ) -> None:
        volume.chmod(mode)

        assert read(MAIL_DIR=str(volume)).mail_dir == volume

    @pytest.mark.parametrize("mode", [0o777, 0o774, 0o771, 0o1777, 0o755], ids=oct)
    def test_one_of_another_user_that_others_can_reach_is_a_fault(
        self, faults: Faults, volume: Path, mode: int
    ) -> None:
        volume.chmod(mode)

        assert faults(MAIL_DIR=str(volume)) == [f"MAIL_DIR='{volume}': expected {PRIVATE_DIRECTORY}"]

    def test_one_of_another_user_that_this_user_cannot_write_is_a_fault(
        self, faults: Faults, volume: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        volume.chmod(0o770)
        monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)  # root may write everywhere

        assert faults(MAIL_DIR=str(volume)) == [f"MAIL_DIR='{volume}': expected {PRIVATE_DIRECTORY}"]

    @pytest.mark.parametrize("below", ["", "/mail"], ids=["a file in its place", "a file in the place of its parent"])
    def test_one_that_cannot_be_made_is_a_fault(self, below: str, faults: Faults, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        lines = faults(MAIL_DIR=f"{tmp_path}/file{below}")

        assert lines == [f"MAIL_DIR='{tmp_path}/file{below}': expected {PRIVATE_DIRECTORY}"]

    def test_one_whose_parent_cannot_be_written_is_a_fault(self, faults: Faults) -> None:
        lines = faults(MAIL_DIR="/proc/self/not/made", SMTP_PORT="smtp")

        assert [line.partition("=")[0] for line in lines] == ["SMTP_PORT", "MAIL_DIR"]

    def test_the_default_that_cannot_be_made_is_named_too(self, faults: Faults, tmp_path: Path) -> None:
        (tmp_path / "var").touch()

        assert faults() == [f"MAIL_DIR='var/mail': expected {PRIVATE_DIRECTORY}"]
