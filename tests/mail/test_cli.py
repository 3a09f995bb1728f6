"""flask mail list, resend and test, as an operator types them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from freezegun import freeze_time

from app.mail.kept import State
from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.spool import Spool
from tests.mail import disks
from tests.mail.command import FLASK_MAIL, run
from tests.mail.conftest import DAY, REQUEST, STATES, MailCommand, MakeMailer, arrived, keep, kept, letter
from tests.mail.scripted import ScriptedServer
from tests.mail.server import DROP, HANG, HOST, SmtpServer, authority, parse
from tests.server.gunicorn import ROOT

FAILURES: dict[str, tuple[SmtpServer, dict[str, str], str]] = {
    "the connection refused": (
        SmtpServer(replies={"connect": "554 5.3.2 no service"}),
        {},
        "the mail server refused the connection: 554 5.3.2 no service",
    ),
    "the greeting refused": (
        SmtpServer(replies={"EHLO": "550 5.7.1 no"}),
        {},
        "the mail server refused the greeting of this host: 550 5.7.1 no",
    ),
    "no STARTTLS": (
        SmtpServer(),
        {"SMTP_SECURITY": "starttls"},
        "STARTTLS extension not supported by server.",
    ),
    "no TLS": (
        SmtpServer(),
        {"SMTP_SECURITY": "tls"},
        "TLS with the mail server failed: wrong version number",
    ),
    "an unknown authority": (
        SmtpServer("starttls", certificate=trustme.CA().issue_cert(HOST)),
        {},
        "the certificate of the mail server is not trusted: unable to get local issuer certificate",
    ),
    "a certificate for another name": (
        SmtpServer("tls", certificate=authority().issue_cert("mail.example.com")),
        {},
        (
            "the certificate of the mail server is not trusted:"
            f" IP address mismatch, certificate is not valid for '{HOST}'."
        ),
    ),
    "wrong credentials": (
        SmtpServer(credentials=("web", "right")),
        {"SMTP_PASSWORD": "wrong"},
        "the mail server refused SMTP_USERNAME with SMTP_PASSWORD: 535 5.7.8 Authentication credentials invalid",
    ),
    "no credentials": (
        SmtpServer(credentials=("web", "right")),
        {"SMTP_USERNAME": "", "SMTP_PASSWORD": ""},
        "the mail server refused the sender: 530 5.7.0 Authentication required",
    ),
    "the sender refused": (
        SmtpServer(replies={"MAIL": "550 5.7.1 not from you"}),
        {},
        "the mail server refused the sender: 550 5.7.1 not from you",
    ),
    "the content refused": (
        SmtpServer(replies={"message": "554 5.6.0 spam"}),
        {},
        "the mail server refused the message: 554 5.6.0 spam",
    ),
    "closing": (
        SmtpServer(replies={"MAIL": "421 4.3.2 closing"}),
        {},
        "the connection to the mail server broke off: the server closes it: 421 4.3.2 closing",
    ),
    "dropped": (
        SmtpServer(replies={"MAIL": DROP}),
        {},
        "the connection to the mail server broke off: no whole reply came",
    ),
    "silent": (
        SmtpServer(replies={"MAIL": HANG}),
        {"SMTP_TIMEOUT": "0.3"},
        "the mail server did not answer within SMTP_TIMEOUT",
    ),
    "nonsense": (
        SmtpServer(replies={"MAIL": "nonsense"}),
        {},
        "the mail server refused the sender: its reply is not SMTP",
    ),
    "in doubt": (
        SmtpServer(replies={"message": DROP}),
        {},
        "no answer came, and the mail server may have taken the message",
    ),
    "an unknown host": (
        SmtpServer(),
        {"SMTP_HOST": "mail..example.com"},
        "SMTP_HOST was not found: not a host name",
    ),
}
"""A server, the settings that differ from its own, and what the operator is told."""


class TestList:
    def test_an_empty_store_is_said_to_be_empty(self, mail: MailCommand) -> None:
        result = mail("list")

        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "0 undelivered\n")

    @freeze_time("2026-11-22 08:00:00")
    def test_each_message_has_a_row_with_nothing_personal(
        self, mail: MailCommand, absent_server: SmtpServer, mail_dir: Path
    ) -> None:
        now = int(time.time())
        mine = letter(f"{REQUEST}.0123456789abcdef")
        keep(mail_dir, mine, age=90)
        keep(mail_dir, letter(2, "ventas"), age=7_300, attempts=4, tried_at=now - 700, answer="451")
        keep(mail_dir, letter(3), age=7_200, attempts=2, tried_at=now - 301, answer="ConnectionRefusedError")
        keep(mail_dir, letter(4, "distribuidor"), age=3_000, attempts=1, tried_at=now - 2_999, in_doubt=True)
        keep(mail_dir, letter(5), age=59, attempts=1, tried_at=now - 58, answer="550", refused=True)
        keep(mail_dir, letter(6), age=6 * DAY, attempts=35, tried_at=now - 900, answer="TimeoutError")

        result = mail("list", server=absent_server)

        assert result.stdout.splitlines() == [
            "   AGE  FORM          REFERENCE  TRIES  LAST CODE               NEXT TRY   STATE     MESSAGE-ID",
            "   6 d  demo          -             35  TimeoutError            -          given up  <6@example.com>",
            "   2 h  ventas        -              4  451                     in 18 min  waiting   <2@example.com>",
            "   2 h  demo          -              2  ConnectionRefusedError  now        waiting   <3@example.com>",
            "50 min  distribuidor  -              1  -                       -          in doubt  <4@example.com>",
            f" 1 min  demo          3F0C-9A1B      0  -                       now        waiting   {mine.message_id}",
            "  59 s  demo          -              1  550                     -          refused   <5@example.com>",
        ]
        assert result.stderr == "6 undelivered\n"

    @freeze_time("2026-11-22 08:00:00")
    def test_json_tells_the_same_with_all_times(
        self, mail: MailCommand, absent_server: SmtpServer, mail_dir: Path
    ) -> None:
        now = int(time.time())
        size = len(letter(1).content.replace(b"\r\n", b"\n"))
        keep(mail_dir, letter(1), age=7_300, attempts=4, tried_at=now - 700, answer="451")
        long = f"{REQUEST}.0123456789abcdef"
        keep(mail_dir, letter(long, "onboarding"), age=60, attempts=1, tried_at=now - 60, in_doubt=True)
        (mail_dir / "new" / "strange\x1b").touch()

        result = mail("list", "--json", server=absent_server)

        assert json.loads(result.stdout) == {
            "messages": [
                {
                    "message_id": "<1@example.com>",
                    "reference": None,
                    "state": "waiting",
                    "attempts": 4,
                    "last_code": "451",
                    "last_try_at": "2026-11-22T07:48:20+00:00",
                    "next_try_at": "2026-11-22T08:18:20+00:00",
                    "stored_at": "2026-11-22T05:58:20+00:00",
                    "age_seconds": 7_300,
                    "form_type": "demo",
                    "bytes": size,
                },
                {
                    "message_id": f"<{long}@example.com>",
                    "reference": "3F0C-9A1B",
                    "state": "in doubt",
                    "attempts": 1,
                    "last_code": None,
                    "last_try_at": "2026-11-22T07:59:00+00:00",
                    "next_try_at": None,
                    "stored_at": "2026-11-22T07:59:00+00:00",
                    "age_seconds": 60,
                    "form_type": "onboarding",
                    "bytes": size + len("onboarding") - len("demo") + len(long) - 1,
                },
            ],
            "foreign": [{"file": "new/strange\x1b", "fault": "is not a message of this service"}],
        }
        assert "\x1b" not in result.stdout
        assert result.stderr == "2 undelivered\n"

    def test_json_of_an_empty_store_is_complete_too(self, mail: MailCommand) -> None:
        assert json.loads(mail("list", "--json").stdout) == {"messages": [], "foreign": []}

    def test_without_a_mail_server_every_message_is_stored(self, mail: MailCommand, mail_dir: Path) -> None:
        for number, facts in enumerate(STATES.values()):
            keep(mail_dir, letter(number), **facts)

        rows = mail("list").stdout.splitlines()[1:]
        states = {message["state"] for message in json.loads(mail("list", "--json").stdout)["messages"]}

        assert len(rows) == len(STATES)
        assert all(re.search(r"  -          stored    <\d@example.com>$", row) for row in rows)
        assert states == {"stored"}

    def test_the_form_kind_gives_the_terminal_no_commands(self, mail: MailCommand, mail_dir: Path) -> None:
        keep(mail_dir, letter(1, "demo\x1b[2J"))

        assert mail("list").stdout.splitlines()[1].isprintable()

    def test_it_marks_a_message_whose_outcome_is_unknown(
        self, mail: MailCommand, make_mailer: MakeMailer, message: Message
    ) -> None:
        with SmtpServer(replies={"message": DROP}) as server, pytest.raises(DeliveryError):
            make_mailer(server).deliver(message)

        assert "  in doubt  <1@example.com>\n" in mail("list", server=server).stdout

    def test_a_message_that_a_mail_reader_has_touched_is_listed(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))
        (path,) = (mail_dir / "new").iterdir()
        path.rename(mail_dir / "cur" / f"{path.name}:2,S")

        assert "<1@example.com>" in mail("list").stdout

    def test_it_marks_it_also_after_a_mail_reader_has_shown_it(
        self, mail: MailCommand, absent_server: SmtpServer, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))
        (path,) = (mail_dir / "new").iterdir()
        path.rename(mail_dir / "cur" / f"{path.name}:2,FS")

        assert "  in doubt  <1@example.com>\n" in mail("list", server=absent_server).stdout

    def test_it_works_on_a_read_only_disk(self, undelivered: Callable[..., None], tmp_path: Path) -> None:
        undelivered(letter(1))

        result = disks.run(disks.READ_ONLY, tmp_path, [*FLASK_MAIL, "list"])

        assert result.returncode == 0
        assert "stored    <1@example.com>" in result.stdout
        assert result.stderr == "1 undelivered\n"


class TestResend:
    def test_it_sends_nothing_from_a_read_only_disk_which_would_keep_what_was_delivered(
        self, undelivered: Callable[..., None], tmp_path: Path
    ) -> None:
        undelivered(letter(1))

        with SmtpServer() as server:
            result = disks.run(disks.READ_ONLY, tmp_path, [*FLASK_MAIL, "resend"], **server.environ)

        assert result.returncode == 1
        assert result.stderr.endswith(
            "Error: MAIL_DIR cannot be written, so a delivered message could not be removed\n"
        )
        assert server.arrivals == []

    def test_it_empties_a_full_disk(self, undelivered: Callable[..., None], mail_dir: Path, tmp_path: Path) -> None:
        undelivered(letter(1))
        (path,) = (mail_dir / "new").iterdir()
        content = path.rename(tmp_path / "message")

        with SmtpServer() as server:
            full = f'{disks.TMPFS} && cp {content} "$0/new/{path.name}" && {disks.FILL}'
            result = disks.run(full, tmp_path, [*FLASK_MAIL, "resend"], **server.environ)

        assert (result.returncode, arrived(server)) == (0, ["<1@example.com>"])
        assert result.stderr == "1 handled, 0 undelivered\n"

    def test_all_messages_are_handed_over_under_their_message_ids(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1), letter(2))

        with SmtpServer() as server:
            result = mail("resend", server=server)

        assert result.exit_code == 0
        assert result.stdout.splitlines()[0].startswith("1/2 <1@example.com> delivered: 250 ")
        assert arrived(server) == ["<1@example.com>", "<2@example.com>"]
        assert server.arrivals[0].content.splitlines() == letter(1).content.splitlines()
        assert kept(mail_dir) == []

    def test_only_the_named_ones_are_handed_over(self, mail: MailCommand, undelivered: Callable[..., None]) -> None:
        undelivered(letter(1), letter(2), letter(3))

        with SmtpServer() as server:
            result = mail("resend", "<3@example.com>", "<1@example.com>", server=server)

        assert result.exit_code == 0
        assert arrived(server) == ["<1@example.com>", "<3@example.com>"]

    def test_a_name_that_is_not_there_is_told_and_fails(
        self, mail: MailCommand, undelivered: Callable[..., None]
    ) -> None:
        undelivered(letter(1))

        with SmtpServer() as server:
            result = mail("resend", "<1@example.com>", "<9@example.com>", server=server)

        assert result.exit_code == 1
        assert "<9@example.com> is not in MAIL_DIR" in result.stderr
        assert arrived(server) == ["<1@example.com>"]

    def test_a_failure_does_not_stop_the_others_and_shows_in_the_exit_status(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1), letter(2), letter(3))
        replies = {"message": "554 5.6.0 no"}

        with SmtpServer(replies=replies) as server:
            server.on_message = lambda: server.replies.update(
                message="554 5.6.0 no" if len(server.arrivals) == 2 else "250 2.0.0 OK"
            )
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert "2/3 <2@example.com> not delivered: the mail server refused the message: 554 5.6.0 no\n" in result.stdout
        assert [(stored.message_id, stored.name.state) for stored in kept(mail_dir)] == [
            ("<2@example.com>", State.REFUSED)
        ]

    @pytest.mark.parametrize(
        ("replies", "states"),
        [
            pytest.param({"message": DROP}, ["in doubt"] * 2 + ["waiting"] * 2, id="drops what it was sent"),
            pytest.param({"connect": "421 busy"}, ["waiting"] * 4, id="takes no connection"),
        ],
    )
    def test_a_server_that_fails_twice_in_a_row_is_not_tried_again(
        self,
        mail: MailCommand,
        undelivered: Callable[..., None],
        mail_dir: Path,
        replies: dict[str, str],
        states: list[str],
    ) -> None:
        undelivered(*map(letter, range(4)))

        with SmtpServer(replies=replies) as server:
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert len(result.stdout.splitlines()) == 2
        assert result.stderr == (
            "the mail server has failed 2 times in a row: the others were not tried\n2 handled, 4 undelivered\n"
        )
        assert [stored.name.state for stored in kept(mail_dir)] == states
        assert [stored.name.attempts for stored in kept(mail_dir)] == [1, 1, 0, 0]

    def test_a_message_in_doubt_is_included_and_stays_in_doubt_if_no_answer_comes(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))

        with SmtpServer(replies={"message": DROP}) as server:
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert result.stdout == (
            "1/1 <1@example.com> in doubt: no answer came, and the mail server may have taken the message\n"
        )
        assert [stored.name.state for stored in kept(mail_dir)] == [State.IN_DOUBT]

        with SmtpServer() as server:
            assert mail("resend", server=server).exit_code == 0
        assert kept(mail_dir) == []

    def test_a_message_that_is_being_handed_over_is_left_alone(self, mail: MailCommand, mail_dir: Path) -> None:
        entry = Spool(mail_dir).store(letter(1))

        with SmtpServer() as server:
            result = mail("resend", server=server)
        entry.release()

        assert result.exit_code == 0
        assert result.stdout == "1/1 <1@example.com> skipped: the service is sending it or has just tried\n"
        assert server.arrivals == []

    def test_all_states_are_handed_over(self, mail: MailCommand, mail_dir: Path) -> None:
        for number, facts in enumerate(STATES.values()):
            keep(mail_dir, letter(number), **facts)

        with SmtpServer() as server:
            result = mail("resend", server=server)

        assert result.exit_code == 0
        assert len(arrived(server)) == len(STATES)
        assert kept(mail_dir) == []

    def test_only_what_waits_is_handed_over(self, mail: MailCommand, mail_dir: Path) -> None:
        for number, facts in enumerate(STATES.values()):
            keep(mail_dir, letter(number), **facts)
        (mail_dir / "cur" / "strange").touch()

        with SmtpServer() as server:
            result = mail("resend", "--waiting", server=server)

        assert result.exit_code == 0
        assert arrived(server) == ["<1@example.com>", "<0@example.com>"]
        assert {stored.name.state for stored in kept(mail_dir)} == {State.IN_DOUBT, State.REFUSED, State.GIVEN_UP}
        assert result.stderr == (
            "'cur/strange' is not a message of this service: left alone\n2 handled, 4 undelivered\n"
        )

    def test_what_waits_is_not_chosen_among_named_messages(self, mail: MailCommand, absent_server: SmtpServer) -> None:
        result = mail("resend", "--waiting", "<1@example.com>", server=absent_server)

        assert result.exit_code == 2
        assert "Error: give either IDs or --waiting\n" in result.stderr

    def test_a_server_that_is_down_is_told_without_a_name_of_python(
        self, mail: MailCommand, absent_server: SmtpServer, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))

        result = mail("resend", server=absent_server)

        assert result.exit_code == 1
        assert result.stdout == (
            "1/1 <1@example.com> not delivered: the mail server cannot be reached: Connection refused\n"
        )
        assert result.stderr == "1 handled, 1 undelivered\n"
        assert [stored.name.attempts for stored in kept(mail_dir)] == [1]

    @pytest.mark.parametrize("command", ["resend", "test"])
    def test_without_a_mail_server_it_says_so(self, mail: MailCommand, command: str) -> None:
        result = mail(command)

        assert result.exit_code == 1
        assert "SMTP_HOST is not set" in result.stderr

    def test_a_message_in_doubt_stays_in_doubt_if_the_server_cannot_be_asked(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))
        with SmtpServer(replies={"message": DROP}) as server:
            mail("resend", server=server)

        result = mail("resend", server=server)

        assert result.exit_code == 1
        assert [stored.name.state for stored in kept(mail_dir)] == [State.IN_DOUBT]


@pytest.mark.parametrize("command", ["list", "show 1", "resend", "drop 1", "drop --state refused"])
def test_a_directory_that_does_not_exist_is_said_so_in_one_line_and_not_made(tmp_path: Path, command: str) -> None:
    mistyped = tmp_path / "mial"
    with SmtpServer() as server:
        result = run([*FLASK_MAIL, *command.split()], mistyped, {"LOG_LEVEL": "warning"} | server.environ)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: MAIL_DIR='{mistyped}' does not exist\n"
    assert not mistyped.exists()


@pytest.mark.parametrize("command", ["list", "show 1", "resend", "drop 1 --yes", "drop --state refused --yes"])
def test_a_directory_that_cannot_be_read_is_told_in_one_line(
    mail: MailCommand, absent_server: SmtpServer, mail_dir: Path, command: str
) -> None:
    (mail_dir / "new").rmdir()
    (mail_dir / "new").touch()

    result = mail(*command.split(), server=absent_server)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: '{mail_dir}/new': Not a directory\n"


def test_a_reader_who_has_seen_enough_ends_the_list_quietly(mail_dir: Path) -> None:
    for number in range(2_000):
        keep(mail_dir, letter(number))

    result = run(["sh", "-c", '"$@" | head -n 1', "sh", *FLASK_MAIL, "list"], mail_dir)

    result.check_returncode()
    assert result.stdout.startswith("   AGE  FORM ")
    assert result.stderr == ""


class TestTest:
    def test_one_message_goes_to_the_sales_team_and_the_answer_is_shown(self, mail: MailCommand) -> None:
        with SmtpServer(replies={"message": "250 2.0.0 queued as 42"}) as server:
            result = mail("test", server=server)

        assert result.exit_code == 0
        assert result.stdout == (
            "ventas@example.com: accepted\nthe mail server took the message: 250 2.0.0 queued as 42\n"
        )
        (arrival,) = server.arrivals
        assert arrival.recipients == ["ventas@example.com"]

    def test_the_message_shows_the_names_and_the_envelope_has_the_addresses_alone(self, mail: MailCommand) -> None:
        names = {
            "MAIL_FROM": "Formulario de España <web@example.com>",
            "SALES_EMAIL": '"Ventas, Uruguay" <a@example.com>,b@example.com',
        }
        with SmtpServer() as server:
            result = mail("test", server=server, **names)

        (arrival,) = server.arrivals
        message = parse(arrival)
        assert (arrival.sender, arrival.recipients) == ("web@example.com", ["a@example.com", "b@example.com"])
        assert [str(each) for each in message["From"].addresses] == ["Formulario de España <web@example.com>"]
        assert [str(each) for each in message["To"].addresses] == ['"Ventas, Uruguay" <a@example.com>', "b@example.com"]
        assert message["Message-ID"].endswith("@example.com>")
        assert message.get_content().startswith("Este mensaje comprueba la entrega")
        assert message.defects == []
        assert result.stdout.splitlines()[:2] == ["a@example.com: accepted", "b@example.com: accepted"]

    def test_each_recipient_that_was_refused_is_named_with_the_reply(self, mail: MailCommand) -> None:
        replies = {"b@example.com": "550 5.1.1 unknown", "c@example.com": "450 4.2.1 busy"}
        with SmtpServer(replies=replies) as server:
            result = mail("test", server=server, SALES_EMAIL="a@example.com,b@example.com,c@example.com")

        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            "a@example.com: accepted",
            "b@example.com: refused: 550 5.1.1 unknown",
            "c@example.com: refused: 450 4.2.1 busy",
            "the mail server took the message: 250 OK",
        ]
        assert [arrival.recipients for arrival in server.arrivals] == [["a@example.com"]]

    def test_so_it_is_when_all_are_refused(self, mail: MailCommand) -> None:
        replies = {"a@example.com": "550 5.1.1 unknown", "b@example.com": "450 4.2.1 busy"}
        with SmtpServer(replies=replies) as server:
            result = mail("test", server=server, SALES_EMAIL="a@example.com,b@example.com")

        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            "a@example.com: refused: 550 5.1.1 unknown",
            "b@example.com: refused: 450 4.2.1 busy",
        ]
        assert result.stderr == ("Error: the mail server refused every recipient: 550 5.1.1 unknown; 450 4.2.1 busy\n")

    @pytest.mark.parametrize(("server", "environ", "told"), FAILURES.values(), ids=FAILURES)
    def test_a_failure_is_a_readable_sentence(
        self, mail: MailCommand, server: SmtpServer, environ: dict[str, str], told: str
    ) -> None:
        with server:
            result = mail("test", server=server, **environ)

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"Error: {told}\n"

    def test_a_server_that_is_down_is_told(self, mail: MailCommand) -> None:
        with SmtpServer() as server:
            pass

        result = mail("test", server=server)

        assert (result.exit_code, result.stderr) == (
            1,
            "Error: the mail server cannot be reached: Connection refused\n",
        )

    def test_the_words_of_the_server_give_a_terminal_no_commands(self, mail: MailCommand) -> None:
        reply = "550-5.7.1 \x1b]0;title\x07uno\r\n550 5.7.1 dos\x9b31m\u202e ñ"
        with ScriptedServer({"MAIL": reply}) as refusing:
            refused = mail("test", server=refusing)
        with ScriptedServer({"RCPT": "250 2.1.5 OK", "message": "250 2.0.0 taken \x1b[31m"}) as taking:
            taken = mail("test", server=taking)

        assert refused.stderr == "Error: the mail server refused the sender: 550 5.7.1 ]0;title uno 5.7.1 dos 31m ñ\n"
        assert taken.stdout.endswith("took the message: 250 2.0.0 taken [31m\n")

    def test_300_characters_of_a_long_answer_are_shown(self, mail: MailCommand, mail_dir: Path) -> None:
        keep(mail_dir, letter(1), age=9)
        with ScriptedServer({"message": f"250 {'x' * 1000}"}) as taking:
            test = mail("test", server=taking)
            resend = mail("resend", server=taking)

        shown = f"250 {'x' * 296}\N{HORIZONTAL ELLIPSIS}\n"
        assert test.stdout.endswith(f"the mail server took the message: {shown}")
        assert resend.stdout == f"1/1 <1@example.com> delivered: {shown}"

    def test_a_failure_is_told_in_the_words_of_the_server(self, mail: MailCommand) -> None:
        with SmtpServer(replies={"MAIL": "550 5.7.1 not from you"}) as server:
            result = mail("test", server=server)

        assert result.exit_code == 1
        assert "not from you" in result.stderr

    def test_without_an_answer_to_the_message_it_may_have_arrived(self, mail: MailCommand) -> None:
        with SmtpServer(replies={"message": DROP}) as server:
            result = mail("test", server=server)

        assert result.exit_code == 1
        assert "may have taken the message" in result.stderr

    @pytest.mark.parametrize("command", ["list", "show", "resend", "drop", "status", "test"])
    def test_each_command_explains_itself(self, mail: MailCommand, command: str) -> None:
        result = mail(command, "--help")

        assert result.exit_code == 0
        assert "Usage" in result.stdout
        assert re.search(r"exit\s+status", result.stdout)


class TestClaims:
    def test_two_cannot_claim_the_same_message(self, undelivered: Callable[..., None], mail_dir: Path) -> None:
        undelivered(letter(1))
        (stored,) = kept(mail_dir)

        with Spool(mail_dir).claim(stored.place) as first, Spool(mail_dir).claim(stored.place) as second:
            assert (first is not None, second) == (True, None)

    def test_a_message_that_was_delivered_since_it_was_listed_is_not_claimed(
        self, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))
        (stored,) = kept(mail_dir)
        (mail_dir / stored.place).unlink()

        with Spool(mail_dir).claim(stored.place) as entry:
            assert entry is None


def test_a_reply_with_a_character_that_the_terminal_has_not_stops_no_command(mail_dir: Path) -> None:
    keep(mail_dir, letter(1), age=2)
    keep(mail_dir, letter(2))

    with ScriptedServer({"message": "250 aceptado \N{CHECK MARK}"}) as server:
        result = subprocess.run(
            [*FLASK_MAIL, "resend"],
            cwd=ROOT,
            env=os.environ | server.environ | {"MAIL_DIR": str(mail_dir), "PYTHONIOENCODING": "latin-1"},
            capture_output=True,
            timeout=60,
            check=True,
        )

    assert result.stdout.count(b"delivered: 250 aceptado \\u2713\n") == 2
