"""flask mail show: one message in words, found by any of its names."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from freezegun import freeze_time

from app.contact.composer import Composer
from app.contact.schema import examine
from app.mail.message import Message
from app.mail.spool import Spool, Stored
from app.mailbox import Mailbox
from tests.factories import UTC_ZONE, contact_body
from tests.mail import disks
from tests.mail.command import FLASK_MAIL
from tests.mail.conftest import REQUEST, MailCommand, keep, letter
from tests.mail.server import SmtpServer
from tests.server.gunicorn import ROOT

LOCAL_PART = f"{REQUEST}.0123456789abcdef"
ELSEWHERE = "00000000000000000000000000000000.0123456789abcdef"
SHOW = [*FLASK_MAIL, "show"]

NAMES = [
    f"<{LOCAL_PART}@example.com>",
    f"{LOCAL_PART}@example.com",
    "3F0C-9A1B",
    "3f0c-9a1b",
    "3F0c9A1b",
    REQUEST,
    REQUEST.upper(),
]

NO_NAMES = {
    "another message": "<9@example.com>",
    "another domain": f"<{LOCAL_PART}@example.org>",
    "a part of a local part": f"{REQUEST}@example.com",
    "another reference": "3F0C-9A1C",
    "a part of a reference": "3F0C",
    "another request": REQUEST[::-1],
    "a local part": LOCAL_PART,
    "nothing": "",
    "brackets": "<>",
}


def compose(**changes: object) -> Message:
    values, _ = examine(contact_body(**changes))
    return Composer(Mailbox("web@example.com"), [Mailbox("ventas@example.com")], UTC_ZONE).compose(values, REQUEST)


def with_text(content: bytes) -> Message:
    message = letter(1)
    return Message(message.message_id, message.content.replace(b"\r\n\r\nHola", content))


@freeze_time("2026-11-22 08:00:00")
def test_facts_header_and_text_are_decoded(mail: MailCommand, absent_server: SmtpServer, mail_dir: Path) -> None:
    message = compose()
    name = keep(mail_dir, message, age=7_300, attempts=4, tried_at=int(time.time()) - 700, answer="451")
    long_line = "Quisiera una demostración. " * 20

    shown = mail("show", "3F0C-9A1B", server=absent_server)

    facts, header, text = shown.stdout.split("\n\n", 2)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert facts.splitlines() == [
        f"Message-ID: {message.message_id}",
        "Reference:  3F0C-9A1B",
        "State:      waiting",
        "Attempts:   4, the last 11 min ago (2026-11-22T07:48:20+00:00): 451",
        "Next try:   in 18 min (2026-11-22T08:18:20+00:00)",
        "Stored:     2 h ago (2026-11-22T05:58:20+00:00)",
        f"File:       {name.place}",
    ]
    assert "Subject: Solicitud de demostración: Comercio Ejemplo S.L." in header.splitlines()
    assert "Reply-To: María Ñúñez <maria@example.com>" in header.splitlines()
    assert "Nombre: María Ñúñez\n" in text
    assert "<" not in text

    (mail_dir / name.place).unlink()
    keep(mail_dir, compose(mensaje=long_line))
    assert long_line.strip() in mail("show", REQUEST).stdout


@freeze_time("2026-11-22 08:00:00")
@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        ({}, ["State:      waiting", "Attempts:   0", "Next try:   in 1 min (2026-11-22T08:01:00+00:00)"]),
        (
            {"attempts": 1, "tried_at": 1_795_334_400, "in_doubt": True},
            ["State:      in doubt", "Attempts:   1, the last 0 s ago (2026-11-22T08:00:00+00:00)", "Next try:   -"],
        ),
    ],
    ids=["not tried", "in doubt"],
)
def test_what_is_not_known_is_left_out(
    mail: MailCommand, absent_server: SmtpServer, mail_dir: Path, facts: dict[str, int], lines: list[str]
) -> None:
    keep(mail_dir, letter(1), **facts)

    shown = mail("show", "1@example.com", server=absent_server).stdout.splitlines()

    assert shown[1:5] == ["Reference:  -", *lines]


def test_the_longest_field_of_the_header_is_shown_in_full(mail: MailCommand, mail_dir: Path) -> None:
    address = f"{'m' * 64}@{'.'.join(['d' * 60] * 3)}.com"
    message = compose(nombre="n" * 200, email=address)
    keep(mail_dir, message)

    assert f"Reply-To: {'n' * 200} <{address}>" in mail("show", message.message_id).stdout.splitlines()


def test_without_a_mail_server_it_is_stored(mail: MailCommand, mail_dir: Path) -> None:
    keep(mail_dir, letter(1), attempts=1, tried_at=1_795_334_400, answer="451")

    lines = mail("show", "1@example.com").stdout.splitlines()

    assert (lines[2], lines[4]) == ("State:      stored", "Next try:   -")


@pytest.mark.parametrize("name", NAMES)
def test_a_message_has_several_names(mail: MailCommand, mail_dir: Path, name: str) -> None:
    message = letter(LOCAL_PART)
    keep(mail_dir, message)
    keep(mail_dir, letter(ELSEWHERE))

    shown = mail("show", name)

    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"Message-ID: {message.message_id}\n")


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
def test_no_other_name_stands_for_it(mail: MailCommand, mail_dir: Path, name: str) -> None:
    keep(mail_dir, letter(LOCAL_PART))
    keep(mail_dir, letter(REQUEST[::-1]))  # as an older release named its messages

    shown = mail("show", name)

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr.startswith("Error: ")
    assert shown.stderr.endswith(" is not in MAIL_DIR\n")
    assert shown.stderr.count("\n") == 1


def test_only_files_that_have_such_a_name_are_opened(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = keep(mail_dir, letter(LOCAL_PART))
    keep(mail_dir, letter(ELSEWHERE))
    opened: list[str] = []
    really_open = Spool.open

    def note_and_open(spool: Spool, place: str) -> tuple[Stored, bytes]:
        opened.append(place)
        return really_open(spool, place)

    monkeypatch.setattr(Spool, "open", note_and_open)
    shown = mail("show", "3F0C-9A1B")

    assert shown.exit_code == 0
    assert opened == [wanted.place]


@pytest.mark.parametrize("name", ["3f0c9a1b", REQUEST])
def test_a_name_of_several_messages_is_an_error_that_lists_them(mail: MailCommand, mail_dir: Path, name: str) -> None:
    keep(mail_dir, letter(f"{REQUEST}.ffffffffffffffff"))
    keep(mail_dir, letter(LOCAL_PART))
    keep(mail_dir, letter(ELSEWHERE))

    shown = mail("show", name)

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr.splitlines() == [
        f"Error: {'3F0C-9A1B' if len(name) == 8 else name} stands for several messages. Name one of them:",
        f"<{LOCAL_PART}@example.com>",
        f"<{REQUEST}.ffffffffffffffff@example.com>",
    ]


def test_two_files_of_one_message_are_no_ambiguity(mail: MailCommand, mail_dir: Path) -> None:
    name = keep(mail_dir, letter(LOCAL_PART))
    content = (mail_dir / name.place).read_bytes()
    (mail_dir / "cur" / f"{name.unique}:2,S").write_bytes(content)

    assert mail("show", "3F0C-9A1B").exit_code == 0


def test_a_message_that_is_being_sent_is_shown(mail: MailCommand, mail_dir: Path) -> None:
    entry = Spool(mail_dir).store(letter(1))
    waiting = mail("show", "1@example.com")
    entry.mark_in_doubt()
    sent = mail("show", "1@example.com")
    entry.release()

    assert (waiting.exit_code, sent.exit_code) == (0, 0)
    assert "File:       cur/" in sent.stdout


def test_a_message_is_found_that_is_renamed_into_a_folder_that_was_read_before(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = keep(mail_dir, letter(1), attempts=1, tried_at=1_700_000_000, in_doubt=True)
    really_open = Spool.open

    def rename_and_open(spool: Spool, place: str) -> tuple[Stored, bytes]:
        if (mail_dir / name.place).exists():
            (mail_dir / name.place).rename(mail_dir / name._replace(in_doubt=False).place)
        return really_open(spool, place)

    monkeypatch.setattr(Spool, "open", rename_and_open)

    assert mail("show", "1@example.com").exit_code == 0


def test_a_file_that_is_not_the_message_is_named(mail: MailCommand, mail_dir: Path) -> None:
    name = keep(mail_dir, letter(1))
    (mail_dir / name.place).write_bytes(b"")

    shown = mail("show", "<1@example.com>")

    assert shown.exit_code == 1
    assert shown.stderr == (
        f"'{name.place}' is not a message of this service: left alone\nError: <1@example.com> is not in MAIL_DIR\n"
    )


def test_it_works_on_a_read_only_disk(undelivered: Callable[..., None], tmp_path: Path) -> None:
    undelivered(letter(1))

    result = disks.run(disks.READ_ONLY, tmp_path, [*SHOW, "1@example.com"])

    assert (result.returncode, result.stderr) == (0, "")
    assert "Subject: Prueba\n" in result.stdout


TEXTS: dict[str, tuple[bytes, str]] = {
    "no part that is text": (b"\r\nContent-Type: text/html\r\n\r\n<p>Hola</p>", "(no text)"),
    "no charset": (b"\r\n\r\nHola", "Hola"),
    "an unknown charset": (b"\r\nContent-Type: text/plain; charset=klingon\r\n\r\nHola", "Hola"),
    "a charset that is none": (b"\r\nContent-Type: text/plain; charset=base64\r\n\r\nHola", "Hola"),
    "bytes that are not UTF-8": (
        b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=FFb",
        "a\ufffdb",
    ),
    "another charset": (
        b"\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=F1",
        "ñ",
    ),
    "right-to-left text and joined emoji, as the letter has them": (
        (
            b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
            b"a: =E2=81=A8=D7=A9=E2=81=A9 =F0=9F=91=A9=E2=80=8D=F0=9F=91=A9"
        ),
        "a: \u2068ש\u2069 👩\u200d👩",
    ),
    "controls": (
        (
            b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
            b"a=1B[2J=07=00=7F=C2=9Bb=09c=0D=0Ad=0De=0Cf=C2=A0g=E2=80=A8h=E2=80=AEi=E2=81=A6j=EF=BB=BFk"
        ),
        "a\\x1b[2J\\x07\\x00\\x7f\\x9bb\tc\nd\ne f g\nh\\u202ei\\u2066j\\ufeffk",
    ),
}


@pytest.mark.parametrize(("content", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_is_safe_for_a_terminal(mail: MailCommand, mail_dir: Path, content: bytes, text: str) -> None:
    keep(mail_dir, with_text(content))

    shown = mail("show", "1@example.com")

    assert shown.exit_code == 0
    assert shown.stdout.split("\n\n", 2)[2] == f"{text}\n"


def test_the_header_is_safe_for_a_terminal_and_has_one_line_for_each_field(mail: MailCommand, mail_dir: Path) -> None:
    fields = (
        b"Subject: =?utf-8?q?uno=0D=0ABcc=3A_x=1B[2J?=\r\n =?utf-8?q?_dos=E2=80=AE_=C3=B1?=\r\n"
        b"X-Odd: =?klingon?q?a?= =?utf-8?b?x?=\r\n\ttres\x1b[2J"
    )
    keep(mail_dir, Message("<1@example.com>", letter(1).content.replace(b"Subject: Prueba", fields)))

    shown = mail("show", "1@example.com")

    header = shown.stdout.split("\n\n", 2)[1].splitlines()
    assert all(line.isprintable() for line in header)
    assert "Subject: uno Bcc: x [2J dos ñ" in header
    assert "X-Odd: =?klingon?q?a?= =?utf-8?b?x?= tres [2J" in header
    assert not any(line.startswith("Bcc") for line in header)


def test_a_terminal_with_few_characters_gets_escapes(mail_dir: Path) -> None:
    keep(mail_dir, compose(nombre="Ñ €"))

    result = subprocess.run(
        [*SHOW, "3F0C-9A1B"],
        cwd=ROOT,
        env=os.environ | {"MAIL_DIR": str(mail_dir), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        timeout=60,
        check=True,
    )

    assert b"Nombre: \xd1 \\u20ac\n" in result.stdout
