"""POST /api/v1/contact and its alias /contact.php."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from typing import Any
from urllib.parse import urlencode

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from marshmallow.validate import Length

from app.contact.schema import ContactSchema
from tests.attack.inputs import BODIES
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import REQUEST_ID, SUNSET, WRONG_BODY, contact_body
from tests.fakes import RecordingMailer

VERSIONED = "/api/v1/contact"
LEGACY = "/contact.php"
NOW = "2030-05-01T12:00:00.5"


def send_text(client: ValidatingClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, data=b"{" + json.dumps(body).encode(), content_type="text/plain")


def send_broken(client: ValidatingClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, data=b"{" + json.dumps(body).encode(), content_type="application/json")


def send(client: ValidatingClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, json=body)


Send = Callable[[ValidatingClient, str, dict[str, Any]], Any]

MENDING: list[tuple[Send, dict[str, Any], str]] = [
    (send_text, {}, "invalid_body"),
    (send_broken, {}, "invalid_body"),
    (send, {}, "discarded"),
    (send, {"_bp_check": ""}, "too_fast"),
    (send, {"ts": ""}, "bad_captcha"),
    (send, {"captcha_input": "AB3DE"}, "invalid_form_type"),
    (send, {"form_type": "demo"}, "invalid_email"),
    (send, {"email": "maria@example.com"}, "invalid_body"),
    (send, {"nombre": "María"}, "mail_delivery_failed"),
]
"""Steps that mend the wrong body one check at a time, and what answers after each while mail is broken."""

TOO_FAST: dict[str, tuple[int, str, int]] = {
    "a little too early": (-1_999, "too_early", 30),
    "just rendered": (0, "too_early", 30),
    "27 s ahead": (27_000, "too_early", 30),
    "28.001 s ahead": (28_001, "too_early", 31),
    "a minute ahead": (60_000, "too_early", 62),
    "3597.999 s ahead": (3_597_999, "too_early", 3600),
    "an hour ahead": (3_600_000, "too_early", 3600),
    "ages ahead": (7_000_000_000_000, "too_early", 3600),
    "a little too late": (-3_600_001, "expired", 30),
    "a day late": (-86_400_000, "expired", 30),
}
"""Offsets of ts from now in milliseconds, with the reason and the wait that they are refused with."""

ABSOLUTE_TS: dict[str, tuple[Any, str, str | None]] = {
    "0": (0, "too_fast", "expired"),
    "-1": (-1, "too_fast", "expired"),
    "smallest": (-(1 << 63), "too_fast", "expired"),
    "largest": ((1 << 63) - 1, "too_fast", "too_early"),
    "digits": ("0", "too_fast", "expired"),
    "largest in digits": (str((1 << 63) - 1), "too_fast", "too_early"),
    "over 64 bits": (1 << 63, "invalid_body", None),
    "under 64 bits": (-(1 << 63) - 1, "invalid_body", None),
    "over 64 bits in digits": (str(1 << 63), "invalid_body", None),
    "many digits": ("9" * 10_000, "invalid_body", None),
    "Arabic digits": ("\u0661\u0667", "invalid_body", None),
    "true": (True, "invalid_body", None),
    "false": (False, "invalid_body", None),
    "float": (1.5, "invalid_body", None),
    "text": ("ahora", "invalid_body", None),
    "list": ([0], "invalid_body", None),
}

CAPTCHAS: dict[str, tuple[Any, Any, int]] = {
    "absent": (None, None, 200),
    "both empty": ("", "", 200),
    "equal": ("K7M2Q", "K7M2Q", 200),
    "equal but for the case": ("K7M2Q", "k7m2q", 200),
    "different": ("K7M2Q", "K7M2R", 400),
    "only expected": ("K7M2Q", None, 400),
    "only typed": (None, "K7M2Q", 400),
    "typed empty": ("K7M2Q", "", 400),
    "four characters": ("K7M2", "K7M2", 400),
    "six characters": ("K7M2QQ", "K7M2QQ", 400),
}

LENGTHS = {"nombre": 200, "empresa": 200, "telefono": 40, "mensaje": 5000}

LINES = ["ñ" * 49] * 100
"""Lines of 4,999 characters with the 99 line breaks between them."""

PERSONAL = {
    "nombre": "Zoraida Quintanilla",
    "empresa": "Almazara Quintanilla",
    "email": "zoraida@example.com",
    "telefono": "+34 611 222 333",
    "mensaje": "Llamadme por favor el martes",
    "tema": "Aceitunas",
    "captcha_expected": "QWXYZ",
    "captcha_input": "QWXYZ",
}
ADDRESSES = [f"203.0.113.{number}" for number in range(71, 78)]


@pytest.fixture
def clock() -> Iterator[FrozenDateTimeFactory]:
    with freeze_time(NOW) as clock:
        assert isinstance(clock, FrozenDateTimeFactory)
        yield clock


@pytest.fixture(params=[VERSIONED, LEGACY])
def path(request: pytest.FixtureRequest) -> str:
    requested: str = request.param
    return requested


def error_of(response: Any) -> str:
    code: str = response.get_json()["error"]["code"]
    return code


def test_every_field_with_a_length_is_tried_at_its_length() -> None:
    fields = ContactSchema().fields.items()

    lengths = {name: check.max for name, field in fields for check in field.validators if isinstance(check, Length)}

    assert lengths == LENGTHS


class TestBothPaths:
    """The alias behaves as the versioned path does."""

    def test_an_accepted_submission_is_delivered(
        self, client: ValidatingClient, mailer: RecordingMailer, path: str
    ) -> None:
        response = client.post(path, json=contact_body())

        assert response.status_code == 200
        assert response.get_json().keys() == {"ok", "message"}
        assert response.get_json()["ok"] is True
        assert "Hemos recibido su mensaje" in response.get_json()["message"]
        assert "pondrá".encode() in response.data
        assert len(mailer.messages) == 1

    @pytest.mark.parametrize("form_type", ["demo", "ventas", "onboarding", "distribuidor"])
    def test_a_form_is_accepted_as_json_is(
        self, client: ValidatingClient, mailer: RecordingMailer, path: str, form_type: str
    ) -> None:
        body = urlencode(contact_body(form_type=form_type, tema="Precios & más"))

        response = client.post(path, data=body, content_type="application/x-www-form-urlencoded")

        assert response.status_code == 200
        message = message_from_bytes(mailer.messages[0].content, policy=policy.default)
        text = message.get_body(("plain",))
        assert message["Reply-To"] == "María Ñúñez <maria@example.com>"
        assert text is not None
        assert "Precios & más" in text.get_content()
        assert "María Ñúñez" in text.get_content()

    def test_form_type_and_email_are_enough(self, client: ValidatingClient, path: str) -> None:
        assert client.post(path, json={"form_type": "ventas", "email": " a@example.com\n"}).status_code == 200

    def test_the_first_check_that_fails_answers(
        self, client: ValidatingClient, mailer: RecordingMailer, clock: FrozenDateTimeFactory, path: str
    ) -> None:
        mailer.broken = True
        body = WRONG_BODY
        outcomes = []

        for post, step, _ in MENDING:
            body = body | step
            response = post(client, path, body)
            outcomes.append("discarded" if response.status_code == 200 else error_of(response))
            clock.tick(30)

        assert outcomes == [expected for _, _, expected in MENDING]
        mailer.broken = False
        assert client.post(path, json=body).status_code == 200

    def test_the_method_comes_before_the_contact_quota(self, client: ValidatingClient, path: str) -> None:
        client.post(path, json=contact_body())

        assert error_of(client.put(path, json=contact_body())) == "method_not_allowed"

    @pytest.mark.parametrize("post", [send_text, send_broken, send])
    def test_the_contact_quota_comes_before_the_body(self, client: ValidatingClient, path: str, post: Send) -> None:
        client.post(path, json=contact_body())

        assert error_of(post(client, path, WRONG_BODY)) == "rate_limit"

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE"])
    def test_any_other_method_is_refused_and_does_not_count(
        self, client: ValidatingClient, path: str, method: str
    ) -> None:
        response = client.open(path, method=method, json=contact_body())

        assert response.status_code == 405
        assert response.headers["Allow"] == "POST, OPTIONS"
        assert client.post(path, json=contact_body()).status_code == 200

    def test_options_does_not_count(self, client: ValidatingClient, path: str) -> None:
        for _ in range(3):
            assert client.options(path).headers["Allow"] == "POST, OPTIONS"

        assert client.post(path, json=contact_body()).status_code == 200

    @pytest.mark.parametrize(("post", "step"), [(post, step) for post, step, _ in MENDING])
    def test_every_post_counts_whatever_becomes_of_it(
        self, client: ValidatingClient, mailer: RecordingMailer, path: str, post: Send, step: dict[str, Any]
    ) -> None:
        mailer.broken = True
        post(client, path, WRONG_BODY | step)

        assert error_of(client.post(path, json=contact_body())) == "rate_limit"
        assert not mailer.messages

    def test_the_next_submission_passes_when_the_wait_is_over(
        self, client: ValidatingClient, clock: FrozenDateTimeFactory, path: str
    ) -> None:
        client.post(path, json=contact_body())
        clock.tick(10.5)
        refused = client.post(path, json=contact_body())
        wait = int(refused.headers["Retry-After"])

        clock.tick(wait - 1)
        assert client.post(path, json=contact_body()).status_code == 429
        clock.tick(1)
        assert client.post(path, json=contact_body()).status_code == 200
        assert wait == 20

    def test_a_refused_submission_does_not_prolong_the_wait(
        self, client: ValidatingClient, clock: FrozenDateTimeFactory, path: str
    ) -> None:
        client.post(path, json=contact_body())
        clock.tick(29)
        client.post(path, json=contact_body())
        clock.tick(1)

        assert client.post(path, json=contact_body()).status_code == 200

    @pytest.mark.usefixtures("clock")
    @pytest.mark.parametrize("trap", ["x", " ", "\n", "\u00a0", "https://spam.example"], ids=ascii)
    @pytest.mark.parametrize("rest", [contact_body(), WRONG_BODY], ids=["valid", "all wrong"])
    def test_a_filled_honeypot_is_answered_exactly_as_an_accepted_submission(
        self,
        make_client: MakeClient,
        mailer: RecordingMailer,
        path: str,
        trap: str,
        rest: dict[str, Any],
    ) -> None:
        same_id = {"X-Request-ID": REQUEST_ID}
        accepted = make_client(TRUSTED_PROXIES="1").post(path, json=contact_body(), headers=same_id)
        mailer.messages.clear()

        discarded = make_client(TRUSTED_PROXIES="1").post(path, json=rest | {"_bp_check": trap}, headers=same_id)

        assert accepted.status_code == 200
        assert discarded.status == accepted.status
        assert discarded.data == accepted.data
        assert list(discarded.headers) == list(accepted.headers)
        assert not mailer.messages

    def test_a_filled_honeypot_is_answered_so_while_mail_is_broken(
        self, client: ValidatingClient, mailer: RecordingMailer, path: str
    ) -> None:
        mailer.broken = True

        assert client.post(path, json=contact_body(_bp_check="x")).status_code == 200

    def test_the_honeypot_of_a_form_counts(self, client: ValidatingClient, mailer: RecordingMailer, path: str) -> None:
        body = urlencode(contact_body(_bp_check=" "))

        response = client.post(path, data=body, content_type="application/x-www-form-urlencoded")

        assert response.status_code == 200
        assert not mailer.messages

    @pytest.mark.usefixtures("clock")
    @pytest.mark.parametrize("age", [2000, 3_600_000])
    @pytest.mark.parametrize("convert", [int, str])
    def test_a_form_of_the_right_age_passes(
        self,
        client: ValidatingClient,
        path: str,
        age: int,
        convert: Callable[[int], int | str],
    ) -> None:
        now = time.time_ns() // 1_000_000

        assert client.post(path, json=contact_body(ts=convert(now - age))).status_code == 200

    @pytest.mark.usefixtures("clock")
    @pytest.mark.parametrize(("offset", "reason", "wait"), TOO_FAST.values(), ids=TOO_FAST.keys())
    def test_a_form_of_the_wrong_age_is_too_fast(
        self,
        client: ValidatingClient,
        mailer: RecordingMailer,
        path: str,
        offset: int,
        reason: str,
        wait: int,
    ) -> None:
        now = time.time_ns() // 1_000_000

        response = client.post(path, json=contact_body(ts=now + offset))

        assert response.status_code == 429
        error = response.get_json()["error"]
        assert error["code"] == "too_fast"
        assert error["details"] == {"reason": reason}
        assert int(response.headers["Retry-After"]) == error["retry_after_seconds"] == wait
        assert response.headers["RateLimit"] == '"default";r=0;t=30'
        assert not mailer.messages

    @pytest.mark.parametrize("offset", [-1_999, 0, 27_500, 28_001, 61_234])
    def test_a_form_that_came_too_early_passes_after_the_wait(
        self, client: ValidatingClient, clock: FrozenDateTimeFactory, path: str, offset: int
    ) -> None:
        body = contact_body(ts=time.time_ns() // 1_000_000 + offset)
        response = client.post(path, json=body)

        clock.tick(int(response.headers["Retry-After"]))

        assert client.post(path, json=body).status_code == 200

    @pytest.mark.parametrize(("ts", "code", "reason"), ABSOLUTE_TS.values(), ids=ABSOLUTE_TS.keys())
    def test_any_other_ts_is_answered_by_what_it_is(
        self, client: ValidatingClient, path: str, ts: Any, code: str, reason: str | None
    ) -> None:
        response = client.post(path, json=contact_body(ts=ts))

        assert error_of(response) == code
        details = response.get_json()["error"]["details"]
        assert details.get("reason") == reason
        assert ("ts" in details.get("fields", {})) == (reason is None)

    @pytest.mark.parametrize(("expected", "typed", "status"), CAPTCHAS.values(), ids=CAPTCHAS.keys())
    def test_the_captcha(self, client: ValidatingClient, path: str, expected: Any, typed: Any, status: int) -> None:
        response = client.post(path, json=contact_body(captcha_expected=expected, captcha_input=typed))

        assert response.status_code == status
        assert status == 200 or error_of(response) == "bad_captcha"

    @pytest.mark.parametrize(
        "value", [None, "", "soporte", "DEMO", " demo", 1, True, ["demo"], {"a": "demo"}], ids=repr
    )
    def test_an_invalid_form_type_lists_the_four(self, client: ValidatingClient, path: str, value: Any) -> None:
        response = client.post(path, json=contact_body() | {"form_type": value})

        assert error_of(response) == "invalid_form_type"
        assert response.get_json()["error"]["allowed_values"] == ["demo", "ventas", "onboarding", "distribuidor"]

    @pytest.mark.parametrize(
        "value", [None, "", " ", "maria", "a@", "@b.es", "a b@example.com", 5, ["a@b.es"], {}], ids=repr
    )
    def test_an_invalid_email_is_refused(self, client: ValidatingClient, path: str, value: Any) -> None:
        assert error_of(client.post(path, json=contact_body() | {"email": value})) == "invalid_email"

    @pytest.mark.parametrize("name", ["form_type", "email"])
    def test_an_absent_required_field_is_refused(self, client: ValidatingClient, path: str, name: str) -> None:
        assert error_of(client.post(path, json=contact_body(**{name: None}))) == f"invalid_{name}"

    @pytest.mark.parametrize(("name", "length"), LENGTHS.items())
    def test_a_field_may_be_as_long_as_the_contract_says(
        self, client: ValidatingClient, path: str, name: str, length: int
    ) -> None:
        assert client.post(path, json=contact_body(**{name: "ñ" * length})).status_code == 200

    @pytest.mark.parametrize("encoding", ["data", "json"])
    @pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r"], ids=repr)
    def test_a_line_break_counts_as_one_character(
        self, client: ValidatingClient, mailer: RecordingMailer, path: str, encoding: str, line_break: str
    ) -> None:
        longest = f"{line_break.join(LINES)}!"
        too_long = contact_body(mensaje=f"{longest}!")
        elsewhere = {"REMOTE_ADDR": ADDRESSES[0]}

        accepted = client.post(path, **{encoding: contact_body(mensaje=longest)})
        refused = client.post(path, **{encoding: too_long}, environ_base=elsewhere)

        assert accepted.status_code == 200
        (message,) = mailer.messages
        text = message_from_bytes(message.content, policy=policy.default).get_body(("plain",))
        assert text is not None
        assert "\n".join(LINES) + "!\n" in text.get_content().replace("\r\n", "\n")
        assert list(refused.get_json()["error"]["details"]["fields"]) == ["mensaje"]

    def test_every_field_too_long_or_of_the_wrong_type_is_named(
        self, client: ValidatingClient, mailer: RecordingMailer, path: str
    ) -> None:
        too_long = {name: "ñ" * (length + 1) for name, length in LENGTHS.items()}

        response = client.post(path, json=contact_body(captcha_input=5, _bp_check=5, **too_long))

        assert error_of(response) == "invalid_body"
        fields = response.get_json()["error"]["details"]["fields"]
        assert fields.keys() == {*LENGTHS, "captcha_input", "_bp_check"}
        assert all(isinstance(message, str) for messages in fields.values() for message in messages)
        assert not mailer.messages

    @pytest.mark.parametrize("empty", [None, ""], ids=repr)
    def test_empty_optional_fields_count_as_absent(
        self, client: ValidatingClient, path: str, empty: str | None
    ) -> None:
        required = {"form_type": "demo", "email": "maria@example.com"}
        optional = dict.fromkeys(contact_body().keys() - required.keys(), empty)

        assert client.post(path, json=required | optional).status_code == 200

    def test_a_failed_delivery_is_told_and_the_next_one_works(
        self, client: ValidatingClient, mailer: RecordingMailer, clock: FrozenDateTimeFactory, path: str
    ) -> None:
        mailer.broken = True
        failed = client.post(path, json=contact_body())
        mailer.broken = False
        clock.tick(30)

        assert failed.status_code == 500
        assert error_of(failed) == "mail_delivery_failed"
        assert failed.get_json()["error"]["details"] == {"kept": True}
        assert client.post(path, json=contact_body()).status_code == 200

    def test_no_personal_data_is_logged(
        self, make_client: MakeClient, caplog: pytest.LogCaptureFixture, path: str
    ) -> None:
        caplog.set_level(logging.DEBUG)
        with socket.socket() as unreachable:
            unreachable.bind(("127.0.0.1", 0))
            smtp = {
                "SMTP_HOST": "127.0.0.1",
                "SMTP_PORT": str(unreachable.getsockname()[1]),
                "SMTP_SECURITY": "none",
                "SMTP_TIMEOUT": "2",
                "SALES_EMAIL": "ventas@example.com",
                "MAIL_FROM": "web@example.com",
            }
            storing, failing = (make_client(collaborators={"mailer": None}, **environ) for environ in ({}, smtp))
            submissions: list[tuple[ValidatingClient, dict[str, str], int]] = [
                (storing, {}, 200),
                (storing, {"_bp_check": "Zoraida"}, 200),
                (failing, {}, 500),
                (storing, {"captcha_input": "Zorai"}, 400),
                (storing, {"form_type": "Zoraida"}, 400),
                (storing, {"email": "Zoraida"}, 400),
                (storing, {"ts": "Zoraida"}, 400),
            ]

            statuses = [
                client.post(
                    path, json=contact_body(**PERSONAL | changes), environ_overrides={"REMOTE_ADDR": address}
                ).status_code
                for address, (client, changes, _) in zip(ADDRESSES, submissions, strict=True)
            ]

        assert statuses == [status for _, _, status in submissions]
        assert "stored" in caplog.text
        assert "discarded" in caplog.text
        assert "not delivered" in caplog.text
        for value in (*PERSONAL.values(), "Zoraida", *ADDRESSES):
            assert value not in caplog.text


def test_the_two_paths_share_one_quota(client: ValidatingClient, clock: FrozenDateTimeFactory) -> None:
    outcomes = []
    for path in (VERSIONED, LEGACY, LEGACY, VERSIONED):
        outcomes.append(client.post(path, json=contact_body()).status_code)
        clock.tick(15)

    assert outcomes == [200, 429, 200, 429]


def test_clients_do_not_share_the_quota(client: ValidatingClient) -> None:
    statuses = [
        client.post(LEGACY, json=contact_body(), environ_overrides={"REMOTE_ADDR": address}).status_code
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")
    ]

    assert statuses == [200, 200, 429]


def test_a_submission_that_the_api_quota_refuses_does_not_touch_the_contact_quota(
    client: ValidatingClient, mailer: RecordingMailer
) -> None:
    for _ in range(60):
        client.get("/api")

    refused = client.post(VERSIONED, json=contact_body())

    assert error_of(refused) == "rate_limit_exceeded"
    assert not mailer.messages
    assert client.post(LEGACY, json=contact_body()).status_code == 200


def test_the_api_quota_comes_before_the_sunset_the_sunset_before_the_method(make_client: MakeClient) -> None:
    client = make_client(**SUNSET)

    codes = [error_of(client.put(VERSIONED, json=WRONG_BODY)) for _ in range(61)]

    assert codes == ["api_version_sunset"] * 60 + ["rate_limit_exceeded"]


def test_the_alias_outlives_the_sunset(make_client: MakeClient, mailer: RecordingMailer) -> None:
    client = make_client(**SUNSET)

    gone = client.post(VERSIONED, json=contact_body())
    accepted = client.post(LEGACY, json=contact_body())

    assert gone.status_code == 410
    assert accepted.status_code == 200
    assert not {"Deprecation", "Sunset", "Link"} & set(accepted.headers.keys())
    assert len(mailer.messages) == 1


def test_the_query_does_not_matter(client: ValidatingClient) -> None:
    assert client.post(f"{LEGACY}?section=x&form_type=x", json=contact_body()).status_code == 200


def test_an_email_of_32_600_combining_marks_is_no_address(client: ValidatingClient) -> None:
    content_type, body = BODIES["email: marks in descending class"]

    response = client.post(VERSIONED, data=body, content_type=content_type)

    assert response.status_code == 400
    assert response.get_json()["error"]["code"] == "invalid_email"
