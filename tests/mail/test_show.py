"""flask mail show: one message in words, found by any of its names."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from freezegun import freeze_time

from app.contact.composer import Composer
from app.contact.schema import validate
from app.mail.kept import SENDING, Kept
from app.mail.message import Message
from app.mail.spool import Spool
from app.mailbox import Mailbox
from tests.factories import UTC_ZONE, contact_body
from tests.mail import disks
from tests.mail.command import FLASK_MAIL
from tests.mail.conftest import REQUEST, MailCommand, keep, letter
from tests.mail.server import SmtpServer

LOCAL_PART = f"{REQUEST}.0123456789abcdef"
ELSEWHERE = "00000000000000000000000000000000.0123456789abcdef"
SHOW = [*FLASK_MAIL, "show"]

IDS = [
    f"<{LOCAL_PART}@example.com>",
    f"{LOCAL_PART}@example.com",
    f"<{LOCAL_PART}@example.org>",
    LOCAL_PART,
    LOCAL_PART.upper(),
    f"<{LOCAL_PART.upper()}@example.com>",
    f"<{LOCAL_PART}>",
    "3F0C-9A1B",
    "3f0c-9a1b",
    "3F0c9A1b",
    REQUEST,
    REQUEST.upper(),
]

NO_IDS = {
    "another message": "<9@example.com>",
    "another reference": "3F0C-9A1C",
    "a part of a reference": "3F0C",
    "another request": "1" * 32,
    "a part of a local part": LOCAL_PART[:-1],
}


def compose(**changes: object) -> Message:
    values, _ = validate(contact_body(**changes))
    return Composer(Mailbox("web@example.com"), lambda _: [Mailbox("ventas@example.com")], UTC_ZONE).compose(
        values, REQUEST
    )


def with_text(content: bytes) -> Message:
    message = letter(1)
    return Message(message.message_id, message.content.replace(b"\r\n\r\nHola", content))


@freeze_time("2026-11-22 08:00:00")
def test_facts_header_and_text_are_decoded(mail: MailCommand, absent_server: SmtpServer, mail_dir: Path) -> None:
    message = compose()
    name = f",tries=4,last={int(time.time()) - 700}.000,waiting=451.demo"
    path = keep(mail_dir, message, name, age=7_300).path
    long_line = "Quisiera una demostración. " * 20

    shown = mail("show", "3F0C-9A1B", server=absent_server)

    row, header, text = shown.stdout.split("\n\n", 2)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert row == mail("list", server=absent_server).stdout.rstrip()
    assert row.splitlines()[1].startswith("   2 h  demo          3F0C-9A1B      4  451                     in 1 h ")
    assert "Subject: Demo: Comercio Ejemplo S.L. · 3F0C-9A1B" in header.splitlines()
    assert "Reply-To: María Ñúñez <maria@example.com>" in header.splitlines()
    assert "Nombre: María Ñúñez\n" in text
    assert "<" not in text

    (mail_dir / path).unlink()
    keep(mail_dir, compose(mensaje=long_line))
    assert long_line.strip() in mail("show", REQUEST).stdout


def test_the_longest_field_of_the_header_is_shown_in_full(mail: MailCommand, mail_dir: Path) -> None:
    address = f"{'m' * 64}@{'.'.join(['d' * 60] * 3)}.com"
    message = compose(nombre="n" * 200, email=address)
    keep(mail_dir, message)

    assert f"Reply-To: {'n' * 200} <{address}>" in mail("show", message.message_id).stdout.splitlines()


@pytest.mark.parametrize("name", IDS)
def test_a_message_has_several_names(mail: MailCommand, mail_dir: Path, name: str) -> None:
    message = letter(LOCAL_PART)
    keep(mail_dir, message)
    keep(mail_dir, letter(ELSEWHERE))

    shown = mail("show", name)

    assert shown.exit_code == 0
    assert f"Message-ID: {message.message_id}\n" in shown.stdout


@pytest.mark.parametrize("name", NO_IDS.values(), ids=NO_IDS)
def test_no_other_name_stands_for_it(mail: MailCommand, mail_dir: Path, name: str) -> None:
    keep(mail_dir, letter(LOCAL_PART))
    keep(mail_dir, letter(ELSEWHERE))

    shown = mail("show", name)

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr.startswith("Error: ")
    assert shown.stderr.endswith(" is not in MAIL_DIR\n")
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["3f0c9a1b", REQUEST])
def test_a_name_of_several_messages_is_an_error_that_lists_them(mail: MailCommand, mail_dir: Path, name: str) -> None:
    keep(mail_dir, letter(f"{REQUEST}.ffffffffffffffff"))
    keep(mail_dir, letter(LOCAL_PART))
    keep(mail_dir, letter(ELSEWHERE))

    shown = mail("show", name)

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr.splitlines() == [
        f"Error: {'3F0C-9A1B' if len(name) == 8 else name} stands for several messages. Name one of them:",
        LOCAL_PART,
        f"{REQUEST}.ffffffffffffffff",
    ]


def test_two_files_of_one_message_are_no_ambiguity(mail: MailCommand, mail_dir: Path) -> None:
    kept = keep(mail_dir, letter(LOCAL_PART))
    (mail_dir / "cur" / f"{kept.unique}:2,S").write_bytes((mail_dir / kept.path).read_bytes())

    assert mail("show", "3F0C-9A1B").exit_code == 0


def test_a_message_that_is_being_sent_is_shown(mail: MailCommand, absent_server: SmtpServer, mail_dir: Path) -> None:
    claim = Spool(mail_dir).store(letter(1))
    claim.note(mark=SENDING)
    sent = mail("show", "1@example.com", server=absent_server)
    claim.release()

    assert sent.exit_code == 0
    assert sent.stdout.splitlines()[1].endswith("      1  -                       -          waiting   1")


def test_a_message_that_is_delivered_between_the_scan_and_the_read_is_not_there(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mail_dir / keep(mail_dir, letter(1)).path
    really_read = Spool.read

    def deliver_and_read(spool: Spool, kept: Kept) -> bytes:
        path.unlink()
        return really_read(spool, kept)

    monkeypatch.setattr(Spool, "read", deliver_and_read)

    shown = mail("show", "1@example.com")

    assert (shown.exit_code, shown.stdout, shown.stderr) == (
        1,
        "",
        f"Error: '{path}': No such file or directory\n",
    )


def test_it_works_on_a_read_only_disk(undelivered: Callable[..., None], tmp_path: Path) -> None:
    undelivered(letter(1))

    result = disks.run(disks.READ_ONLY, tmp_path, [*SHOW, "1@example.com"])

    assert (result.returncode, result.stderr) == (0, "")
    assert "Subject: Prueba\n" in result.stdout


TEXTS: dict[str, tuple[bytes, str]] = {
    "no part that is text": (b"\r\nContent-Type: text/html\r\n\r\n<p>Hola</p>", "(no text)"),
    "no charset": (b"\r\n\r\nHola", "Hola"),
    "bytes that are not UTF-8": (
        b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=FFb",
        "a\ufffdb",
    ),
    "an unknown charset": (b"\r\nContent-Type: text/plain; charset=klingon\r\n\r\nHola", "Hola"),
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
