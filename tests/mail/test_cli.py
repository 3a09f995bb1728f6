"""flask mail list, resend and test, as an operator types them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from app.mail import cli
from app.mail.kept import SENDING, State
from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.redelivery import GAP
from app.mail.spool import Spool
from tests.mail import disks
from tests.mail.command import FLASK_MAIL, run
from tests.mail.conftest import (
    NAMES,
    REQUEST,
    MailCommand,
    MakeMailer,
    arrived,
    keep,
    keep_in_state,
    kept,
    letter,
)
from tests.mail.server import Act, Replies, SmtpServer, parse
from tests.mail.service import DAY

LOADED = "are the service's settings loaded?"


class Answering(SmtpServer):
    """Answers one message after the other like this."""

    def __init__(self, *answers: str | Act) -> None:
        super().__init__()
        self._answers = iter(answers)

    def reply_to(self, stage: str) -> str | Act | None:
        return next(self._answers) if stage == "message" else None


class TestList:
    def test_an_empty_store_is_said_to_be_empty(self, mail: MailCommand) -> None:
        table, document = mail("list"), mail("list", "--json")

        assert (table.exit_code, table.stdout, table.stderr) == (0, "", "0 undelivered\n")
        assert json.loads(document.stdout) == {"messages": []}

    @freeze_time("2026-11-22 08:00:00")
    def test_each_message_has_a_row_with_nothing_personal(
        self, mail: MailCommand, absent_server: SmtpServer, mail_dir: Path
    ) -> None:
        now = int(time.time())
        long = f"{REQUEST}.0123456789abcdef"
        for number, form_type, age, name in (
            (long, "demo", 90, NAMES["new"]),
            (2, "ventas", 7_300, f",tries=4,last={now - 700}.000,waiting=451.ventas"),
            (3, "demo", 7_200, f",tries=2,last={now - 3_601}.000,waiting=ConnectionRefusedError.demo"),
            (4, "distribuidor", 3_000, f",tries=1,last={now - 2_999}.000,waiting=.distribuidor.doubt"),
            (5, "demo", 59, f",tries=1,last={now - 58}.000,refused=550.demo"),
            (6, "demo", 6 * DAY, f",tries=35,last={now - 900}.000,waiting=TimeoutError.demo"),
        ):
            keep(mail_dir, letter(number, form_type), name, age=age)

        result = mail("list", server=absent_server)

        assert result.stdout.splitlines() == [
            "   AGE  FORM          REFERENCE  TRIES  LAST CODE               NEXT TRY   STATE     MESSAGE-ID",
            "   6 d  demo          -             35  TimeoutError            -          given up  6",
            "   2 h  ventas        -              4  451                     in 1 h     waiting   2",
            "   2 h  demo          -              2  ConnectionRefusedError  now        waiting   3",
            "50 min  distribuidor  -              1  -                       -          in doubt  4",
            f" 1 min  demo          3F0C-9A1B      0  -                       now        waiting   {long}",
            "  59 s  demo          -              1  550                     -          refused   5",
        ]
        assert result.stderr == "6 undelivered\n"

    @freeze_time("2026-11-22 08:00:00")
    def test_json_tells_the_same_with_all_times(
        self, mail: MailCommand, absent_server: SmtpServer, mail_dir: Path
    ) -> None:
        now = int(time.time())
        keep(mail_dir, letter(1), f",tries=4,last={now - 700}.000,waiting=451.demo", age=7_300)
        long = f"{REQUEST}.0123456789abcdef"
        keep(mail_dir, letter(long), f",tries=1,last={now - 60}.000,waiting=.onboarding.doubt", age=60)

        result = mail("list", "--json", server=absent_server)

        assert json.loads(result.stdout) == {
            "messages": [
                {
                    "message_id": "1",
                    "reference": None,
                    "state": "waiting",
                    "attempts": 4,
                    "last_code": "451",
                    "last_try_at": "2026-11-22T07:48:20+00:00",
                    "next_try_at": "2026-11-22T09:38:20+00:00",
                    "stored_at": "2026-11-22T05:58:20+00:00",
                    "age_seconds": 7_300,
                    "form_type": "demo",
                },
                {
                    "message_id": long,
                    "reference": "3F0C-9A1B",
                    "state": "in doubt",
                    "attempts": 1,
                    "last_code": None,
                    "last_try_at": "2026-11-22T07:59:00+00:00",
                    "next_try_at": None,
                    "stored_at": "2026-11-22T07:59:00+00:00",
                    "age_seconds": 60,
                    "form_type": "onboarding",
                },
            ]
        }
        assert result.stderr == "2 undelivered\n"

    def test_without_a_mail_server_every_message_is_stored(self, mail: MailCommand, mail_dir: Path) -> None:
        for number, state in enumerate(NAMES):
            keep_in_state(mail_dir, letter(number), state)

        rows = mail("list").stdout.splitlines()[1:]
        messages = json.loads(mail("list", "--json").stdout)["messages"]

        assert len(rows) == len(NAMES)
        assert all(re.search(r"  -          stored    \d$", row) for row in rows)
        assert [message["state"] for message in messages] == ["stored"] * len(NAMES)

    def test_it_marks_a_message_whose_outcome_is_unknown(
        self, mail: MailCommand, make_mailer: MakeMailer, message: Message
    ) -> None:
        with SmtpServer(replies={"message": Act.DROP}) as server, pytest.raises(DeliveryError):
            make_mailer(server).deliver(message)

        assert "  in doubt  1\n" in mail("list", server=server).stdout

    def test_it_works_on_a_read_only_disk(self, undelivered: Callable[..., None], tmp_path: Path) -> None:
        undelivered(letter(1))

        result = disks.run(disks.READ_ONLY, tmp_path, [*FLASK_MAIL, "list"])

        assert (result.returncode, result.stderr) == (0, "1 undelivered\n")
        assert "  stored    1\n" in result.stdout

    def test_a_reader_who_has_seen_enough_ends_it_quietly(self, mail_dir: Path) -> None:
        for number in range(2_000):
            keep(mail_dir, letter(number))

        # Without buffers, Python takes a write that is cut short for a whole one.
        buffered = {"PYTHONUNBUFFERED": ""}
        result = run(["sh", "-c", '"$@" | head -n 1', "sh", *FLASK_MAIL, "list"], mail_dir, buffered)

        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("   AGE  FORM ")


@pytest.mark.parametrize("folder", ["new", "cur"])
@pytest.mark.parametrize("flags", ["", ":2,", ":2,S", ":2,F", ":2,DFPRSTabz"])
def test_neither_the_flags_of_a_mail_reader_nor_its_folder_change_a_message(
    mail: MailCommand, mail_dir: Path, flags: str, folder: str
) -> None:
    path = mail_dir / keep_in_state(mail_dir, letter(1), "waiting").path
    path.rename(mail_dir / folder / f"{path.name}{flags}")

    with SmtpServer() as server:
        listed = mail("list", server=server)
        resent = mail("resend", "--waiting", server=server)

    assert "  waiting   1\n" in listed.stdout
    assert arrived(server) == ["<1@example.com>"]
    assert resent.stderr == "1 handled, 0 undelivered\n"


class TestResend:
    def test_it_sends_nothing_from_a_read_only_disk_which_would_keep_what_was_delivered(
        self, undelivered: Callable[..., None], tmp_path: Path
    ) -> None:
        undelivered(letter(1))

        with SmtpServer() as server:
            result = disks.run(disks.READ_ONLY, tmp_path, [*FLASK_MAIL, "resend"], **server.environ)

        assert (result.returncode, server.arrivals) == (1, [])
        assert result.stderr.endswith("Error: MAIL_DIR cannot be written, so no message could be removed\n")

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
        assert result.stdout == "1/2 1 delivered: 250 2.0.0 taken\n2/2 2 delivered: 250 2.0.0 taken\n"
        assert arrived(server) == ["<1@example.com>", "<2@example.com>"]
        assert server.arrivals[0].content.splitlines() == letter(1).content.splitlines()
        assert kept(mail_dir) == []
        assert len(server.connections) == 1

    def test_only_the_named_ones_are_handed_over_and_none_if_a_name_is_not_there(
        self, mail: MailCommand, undelivered: Callable[..., None]
    ) -> None:
        undelivered(letter(1), letter(2), letter(3), letter(4))

        with SmtpServer() as server:
            some = mail("resend", "3", "<1@example.com>", server=server)
            missing = mail("resend", "<4@example.com>", "<9@example.com>", "8", server=server)

        assert (some.exit_code, missing.exit_code) == (0, 1)
        assert missing.stderr == "Error: 9 is not in MAIL_DIR\n"
        assert arrived(server) == ["<1@example.com>", "<3@example.com>"]

    def test_a_failure_does_not_stop_the_others_and_shows_in_the_exit_status(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1), letter(2), letter(3))

        with Answering("250 2.0.0 OK", "554 5.6.0 no", "250 2.0.0 OK") as server:
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert "2/3 2 not delivered: the mail server refused the message: 554 5.6.0 no\n" in result.stdout
        assert [(left.local_part, left.state) for left in kept(mail_dir)] == [("2", State.REFUSED)]

    @pytest.mark.parametrize(
        ("replies", "is_doubtful"),
        [
            pytest.param({"message": Act.DROP}, True, id="drops what it was sent"),
            pytest.param({"connect": "421 busy"}, False, id="takes no connection"),
            pytest.param({"RCPT": "450 4.7.1 slow down"}, False, id="is busy"),
        ],
    )
    def test_a_server_that_fails_twice_in_a_row_is_not_tried_again(
        self,
        mail: MailCommand,
        undelivered: Callable[..., None],
        mail_dir: Path,
        replies: Replies,
        *,
        is_doubtful: bool,
    ) -> None:
        undelivered(*map(letter, range(4)))

        with SmtpServer(replies=replies) as server:
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert len(result.stdout.splitlines()) == 2
        assert result.stderr == (
            "the mail server failed 2 times in a row: the others were not tried\n2 handled, 4 undelivered\n"
        )
        assert [left.is_doubtful for left in kept(mail_dir)] == [is_doubtful] * 2 + [False] * 2
        assert [left.tries for left in kept(mail_dir)] == [1, 1, 0, 0]

    def test_an_answer_between_two_failures_of_the_server_lets_it_go_on(
        self, mail: MailCommand, undelivered: Callable[..., None]
    ) -> None:
        undelivered(*map(letter, range(6)))

        with Answering(Act.DROP, "250 OK", Act.DROP, "554 no", "451 later", "250 OK") as server:
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert result.stderr == "6 handled, 4 undelivered\n"

    def test_messages_go_a_second_apart(
        self, mail: MailCommand, undelivered: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        undelivered(*map(letter, range(5)))
        slept: list[float] = []
        monkeypatch.setattr(cli, "GAP", GAP)
        monkeypatch.setattr(time, "sleep", slept.append)

        with SmtpServer() as server:
            result = mail("resend", server=server)

        assert slept == [1.0] * 4
        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            f"{number}/5 {number - 1} delivered: 250 2.0.0 taken" for number in range(1, 6)
        ]

    def test_a_message_in_doubt_is_included_and_stays_in_doubt_until_it_is_delivered(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))

        with SmtpServer(replies={"message": Act.DROP}) as server:
            unanswered = mail("resend", server=server)
        absent = mail("resend", server=server)
        (left,) = kept(mail_dir)
        with SmtpServer() as server:
            delivered = mail("resend", server=server)

        assert [result.exit_code for result in (unanswered, absent, delivered)] == [1, 1, 0]
        assert unanswered.stdout == ("1/1 1 in doubt: no answer came, and the mail server may have taken the message\n")
        assert (left.is_doubtful, left.tries, left.last_code) == (True, 2, "ConnectionRefusedError")
        assert kept(mail_dir) == []

    def test_what_is_being_sent_waits_and_is_in_doubt_once_its_process_has_died(
        self, mail: MailCommand, mail_dir: Path
    ) -> None:
        claim = Spool(mail_dir).store(letter(1))
        claim.note(mark=SENDING)

        with SmtpServer() as server:
            shown = mail("list", server=server).stdout, mail("status", server=server).stdout
            skipped = mail("resend", server=server)
            claim.release()
            shown_then = mail("list", server=server).stdout, mail("status", server=server).stdout
            resent = mail("resend", server=server)

        assert ("  waiting   1\n" in shown[0], shown[1].startswith("OK - 1 waiting")) == (True, True)
        assert skipped.stdout == "1/1 1 skipped: the service is sending it or has just tried\n"
        assert ("  in doubt  1\n" in shown_then[0], shown_then[1]) == (True, "WARNING - 1 in doubt\n")
        assert (resent.exit_code, arrived(server)) == (0, ["<1@example.com>"])

    def test_a_message_that_is_being_handed_over_is_left_alone(self, mail: MailCommand, mail_dir: Path) -> None:
        claim = Spool(mail_dir).store(letter(1))

        with SmtpServer() as server:
            result = mail("resend", server=server)
        claim.release()

        assert (result.exit_code, server.arrivals) == (1, [])
        assert result.stdout == "1/1 1 skipped: the service is sending it or has just tried\n"

    @pytest.mark.parametrize(
        ("option", "delivered"), [([], ["5", "1", "0", "2", "3", "4"]), (["--waiting"], ["1", "0"])]
    )
    def test_all_states_are_handed_over_or_only_what_waits(
        self, mail: MailCommand, mail_dir: Path, option: list[str], delivered: list[str]
    ) -> None:
        for number, state in enumerate(NAMES):
            keep_in_state(mail_dir, letter(number), state)

        with SmtpServer() as server:
            result = mail("resend", *option, server=server)

        assert result.exit_code == 0
        assert arrived(server) == [f"<{number}@example.com>" for number in delivered]
        assert {left.local_part for left in kept(mail_dir)} == set("012345").difference(delivered)
        assert result.stderr == f"{len(delivered)} handled, {6 - len(delivered)} undelivered\n"

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
        assert result.stdout == "1/1 1 not delivered: the mail server cannot be reached: Connection refused\n"
        assert result.stderr == "1 handled, 1 undelivered\n"
        assert [left.tries for left in kept(mail_dir)] == [1]


@pytest.mark.parametrize("command", ["resend", "test"])
def test_without_a_mail_server_what_needs_one_says_so(mail: MailCommand, command: str) -> None:
    result = mail(command)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: SMTP_HOST is not set: there is no mail server to hand messages to: {LOADED}\n"


@pytest.mark.parametrize("identifier", ["", "<>", "@example.com"])
@pytest.mark.parametrize("command", ["show", "resend", "drop --yes"])
def test_an_empty_id_is_a_usage_error_that_touches_nothing(
    mail: MailCommand, mail_dir: Path, command: str, identifier: str
) -> None:
    keep(mail_dir, letter(1))

    with SmtpServer() as server:
        result = mail(*command.split(), identifier, server=server)

    assert (result.exit_code, result.stdout, server.arrivals) == (2, "", [])
    assert result.stderr.endswith(": the ID is empty\n")
    assert len(kept(mail_dir)) == 1


@pytest.mark.parametrize("command", ["list", "show 1", "resend", "drop 1", "drop --state refused"])
def test_a_directory_that_does_not_exist_is_said_so_in_one_line_and_not_made(tmp_path: Path, command: str) -> None:
    mistyped = tmp_path / "mial"
    with SmtpServer() as server:
        result = run([*FLASK_MAIL, *command.split()], mistyped, {"LOG_LEVEL": "warning"} | server.environ)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: MAIL_DIR='{mistyped}' does not exist: {LOADED}\n"
    assert not mistyped.exists()


def test_the_help_says_of_each_command_in_a_whole_sentence_what_it_does(mail: MailCommand) -> None:
    commands = mail("--help").stdout.partition("Commands:\n")[2].splitlines()

    assert len(commands) == 6
    assert [line for line in commands if not re.fullmatch(r"  \w+ +[A-Z][^.]+\.", line)] == []


@pytest.mark.parametrize("command", ["list", "show 1", "resend", "drop 1 --yes", "drop --state refused --yes"])
def test_a_directory_that_cannot_be_read_is_told_in_one_line(
    mail: MailCommand, absent_server: SmtpServer, mail_dir: Path, command: str
) -> None:
    (mail_dir / "new").rmdir()
    (mail_dir / "new").touch()

    result = mail(*command.split(), server=absent_server)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: '{mail_dir}/new': Not a directory\n"


@pytest.mark.parametrize("command", ["list", "show", "resend", "drop", "status", "test"])
def test_each_command_explains_itself(mail: MailCommand, command: str) -> None:
    result = mail(command, "--help")

    assert result.exit_code == 0
    assert "Usage" in result.stdout
    assert re.search(r"exit\s+status", result.stdout)


class TestTest:
    def test_one_message_goes_to_the_sales_team_and_the_answer_is_shown(self, mail: MailCommand) -> None:
        with SmtpServer(replies={"message": "250 2.0.0 queued as 42"}) as server:
            result = mail("test", server=server)

        assert result.exit_code == 0
        assert result.stdout == (
            "ventas@example.com: accepted\nthe mail server took the message: 250 2.0.0 queued as 42\n"
        )
        assert [arrival.recipients for arrival in server.arrivals] == [["ventas@example.com"]]

    def test_the_message_shows_the_names_and_the_envelope_has_the_addresses_alone(self, mail: MailCommand) -> None:
        names = {
            "MAIL_FROM": "Formulario de España <web@example.com>",
            "SALES_EMAIL": '"Ventas, Uruguay" <a@example.com>,b@example.com',
        }
        with SmtpServer() as server:
            result = mail("test", server=server, **names)

        (arrival,) = server.arrivals
        message: Any = parse(arrival)
        assert (arrival.sender, arrival.recipients) == ("web@example.com", ["a@example.com", "b@example.com"])
        assert [str(each) for each in message["From"].addresses] == ["Formulario de España <web@example.com>"]
        assert [str(each) for each in message["To"].addresses] == ['"Ventas, Uruguay" <a@example.com>', "b@example.com"]
        assert message["Message-ID"].endswith("@example.com>")
        assert message.get_payload(0).get_content().startswith("Este mensaje comprueba la entrega")
        assert message.defects == []
        assert result.stdout.splitlines()[:2] == ["a@example.com: accepted", "b@example.com: accepted"]

    def test_the_recipients_of_each_kind_of_form_are_named_once(self, mail: MailCommand) -> None:
        own = {"SALES_EMAIL_DEMO": "Demos <demo@example.com>", "SALES_EMAIL_VENTAS": "demo@example.com,b@example.com"}
        with SmtpServer(replies={"b@example.com": "550 5.1.1 unknown"}) as server:
            result = mail("test", server=server, **own)

        assert result.exit_code == 1
        assert result.stdout.splitlines()[:-1] == [
            "ventas@example.com: accepted",
            "demo@example.com: accepted",
            "b@example.com: refused: 550 5.1.1 unknown",
        ]

    def test_each_recipient_that_was_refused_is_named_with_the_reply(self, mail: MailCommand) -> None:
        refused = {"b@example.com": "550 5.1.1 unknown", "c@example.com": "450 4.2.1 busy"}
        lines = [f"{address}: refused: {reply}" for address, reply in refused.items()]
        with SmtpServer(replies=refused) as server:
            some = mail("test", server=server, SALES_EMAIL="a@example.com,b@example.com,c@example.com")
            every = mail("test", server=server, SALES_EMAIL="b@example.com,c@example.com")

        assert (some.exit_code, every.exit_code) == (1, 1)
        assert some.stdout.splitlines() == [
            "a@example.com: accepted",
            *lines,
            "the mail server took the message: 250 2.0.0 taken",
        ]
        assert every.stdout.splitlines() == lines
        assert every.stderr == "Error: the mail server refused every recipient: 550 5.1.1 unknown; 450 4.2.1 busy\n"
        assert [arrival.recipients for arrival in server.arrivals] == [["a@example.com"]]

    def test_a_failure_is_a_readable_sentence(self, mail: MailCommand) -> None:
        with SmtpServer({"MAIL": "550 5.7.1 not from you"}) as server:
            result = mail("test", server=server)

        told = "Error: the mail server refused the sender: 550 5.7.1 not from you\n"
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", told)

    def test_a_server_that_is_down_is_told(self, mail: MailCommand, absent_server: SmtpServer) -> None:
        result = mail("test", server=absent_server)

        assert result.exit_code == 1
        assert result.stderr == "Error: the mail server cannot be reached: Connection refused\n"

    def test_the_words_of_the_server_give_a_terminal_no_commands(self, mail: MailCommand) -> None:
        reply = "550-5.7.1 \x1b]0;title\x07uno\r\n550 5.7.1 dos\x9b31m\u202e ñ"
        with SmtpServer({"MAIL": reply}) as refusing:
            refused = mail("test", server=refusing)
        with SmtpServer({"RCPT": "250 2.1.5 OK", "message": "250 2.0.0 taken \x1b[31m"}) as taking:
            taken = mail("test", server=taking)

        assert refused.stderr == "Error: the mail server refused the sender: 550 5.7.1 ]0;title uno 5.7.1 dos 31m ñ\n"
        assert taken.stdout.endswith("took the message: 250 2.0.0 taken [31m\n")

    def test_300_characters_of_a_long_answer_are_shown(self, mail: MailCommand, mail_dir: Path) -> None:
        keep(mail_dir, letter(1), age=9)
        with SmtpServer({"message": f"250 {'x' * 1000}"}) as taking:
            test = mail("test", server=taking)
            resend = mail("resend", server=taking)

        shown = f"250 {'x' * 296}\N{HORIZONTAL ELLIPSIS}\n"
        assert test.stdout.endswith(f"the mail server took the message: {shown}")
        assert resend.stdout == f"1/1 1 delivered: {shown}"
