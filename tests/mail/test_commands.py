"""flask mail as an operator sees it: what a command says, and what it sends, logs and leaves in MAIL_DIR."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from app.contact.composer import Composer
from app.contact.schema import validate
from app.mail import cli
from app.mail.kept import SENDING
from app.mail.message import Message
from app.mail.redelivery import GAP
from app.mail.spool import Spool
from app.mailbox import Mailbox
from tests.factories import UTC_ZONE, contact_body
from tests.mail import disks
from tests.mail.command import FLASK_MAIL, run
from tests.mail.conftest import AGES, NAMES, REQUEST, MailCommand, arrived, keep, letter
from tests.mail.server import Act, SmtpServer, parse
from tests.mail.service import DAY, Clock

NOW = 1_795_334_400
"""2026-11-22 08:00:00, at which each session takes place."""

WORDS = {**NAMES, "sending": f",tries=1,last={{stored}},waiting=.demo{SENDING}"}
FULL_WITH_A_MESSAGE = f'{disks.TMPFS} && cp "$0"/../*.demo "$0/new" && {disks.FILL}'
LOADED = "are the service's settings loaded?"
SKIPPED = "skipped: the service is sending it or has just tried"

FORM = f"{REQUEST}.0123456789abcdef"
"""The local part of a message that a form has made."""

TWIN, OTHER = f"{REQUEST}.ffffffffffffffff", f"{'0' * 32}.0123456789abcdef"
EACH = "; ".join(f"{number} {state}" for number, state in enumerate(NAMES))
"""A message in each state: 0 new, 1 waiting, 2 in doubt, 3 in doubt, then deferred, 4 refused, 5 given up."""

SESSIONS = f"""
# an empty store is said to be empty
$ list
! 0 undelivered

# without a mail server all are stored
kept {EACH}
server none
$ list
   AGE  ...  -          stored    5
...  -          stored    1
...  -          stored    0
...  -          stored    2
...  -          stored    3
...  -          stored    4
! 6 undelivered

# one that is being sent waits
kept 1 sending*
$ list
...  -          waiting   1
! 1 undelivered

# and is in doubt once its process has died
kept 1 sending
$ list
...  -          in doubt  1
! 1 undelivered

# one that is being sent is shown
kept 1 sending*
$ show 1
...    1  -                       -          waiting   1
...
Message-ID: <1@example.com>
...

# all are sent again
kept 1 new; 2 new
$ resend
1/2 1 delivered: 250 2.0.0 taken
2/2 2 delivered: 250 2.0.0 taken
! 2 handled, 0 undelivered
= left nothing
= sent 1 2

# or only those that are named
kept 1 new; 2 new; 3 new; 4 new
$ resend 3 <1@example.com>
1/2 1 delivered: ...
2/2 3 delivered: ...
! 2 handled, 2 undelivered
= left 2 waiting 0; 4 waiting 0
= sent 1 3

# none if a name is not there
kept 1 new
$ resend <1@example.com> <9@example.com> 8
! Error: 9 is not in MAIL_DIR
= exit 1

# any state will do
kept {EACH}
$ resend
...
! 6 handled, 0 undelivered
= left nothing
= sent 5 1 0 2 3 4

# or only what waits
kept {EACH}
$ resend --waiting
1/2 1 delivered: ...
2/2 0 delivered: ...
! 2 handled, 4 undelivered
= left 5 given up 35 451; 2 in doubt 1; 3 in doubt 2 451; 4 refused 1 550
= sent 1 0

# but not one that was being sent
kept 1 sending
$ resend
1/1 1 delivered: 250 2.0.0 taken
! 1 handled, 0 undelivered
= left nothing
= sent 1

# a refusal shows in the exit status and stops none of the others
kept 1 new; 2 new; 3 new
server message: 250 OK | 554 5.6.0 no | 250 OK
$ resend
1/3 1 delivered: 250 OK
2/3 2 not delivered: the mail server refused the message: 554 5.6.0 no
3/3 3 delivered: 250 OK
! 3 handled, 1 undelivered
= exit 1
= left 2 refused 1 554
= sent 1 2 3

# an answer between two failures lets it go on
kept 0 new; 1 new; 2 new; 3 new; 4 new; 5 new
server message: DROP | 250 OK | DROP | 554 no | 451 later | 250 OK
$ resend
...
! 6 handled, 4 undelivered
= exit 1
= left 0 in doubt 1; 2 in doubt 1; 3 refused 1 554; 4 waiting 1 451
= sent 0 1 2 3 4 5

# names may be mixed, and one given twice
kept {FORM} new; 2 new; 3 new
$ drop --yes 3f0c9a1b {REQUEST} <2@example.com>
! 2 dropped
= left 3 waiting 0
= log message 2 dropped
= log message {FORM} dropped

# a yes deletes what was shown
kept 1 new 9; 2 new; 3 refused
typed y
$ drop --state waiting
   AGE  FORM ...  1
   0 s  ...  2
Delete permanently (2)? [y/N]: y
! 2 dropped
= left 3 refused 1 550
= log message 1 dropped
= log message 2 dropped

# a name that is not there leaves all where they are
kept 1 new
$ drop --yes <1@example.com> <9@example.com> dead-beef
! Error: 9 is not in MAIL_DIR
= exit 1

# so does a name of several
kept {FORM} new; {TWIN} new; 1 new
$ drop --yes 1 3F0C-9A1B
! Error: 3F0C-9A1B stands for several messages. Name one of them:
! {FORM}
! {TWIN}
= exit 1

# a message goes to the sales team
server message: 250 2.0.0 queued as 42
$ test
ventas@example.com: accepted
the mail server took the message: 250 2.0.0 queued as 42
= sent test

# each recipient is named once, with the reply if it was refused
server b@example.com: 550 5.1.1 unknown
SALES_EMAIL_DEMO=Demos <demo@example.com>
SALES_EMAIL_VENTAS=demo@example.com,b@example.com
$ test
ventas@example.com: accepted
demo@example.com: accepted
b@example.com: refused: 550 5.1.1 unknown
the mail server took the message: 250 2.0.0 taken
= exit 1
= sent test

# all recipients are refused
server b@example.com: 550 5.1.1 unknown
server c@example.com: 450 4.2.1 busy
SALES_EMAIL=b@example.com,c@example.com
$ test
b@example.com: refused: 550 5.1.1 unknown
c@example.com: refused: 450 4.2.1 busy
! Error: the mail server refused every recipient: 550 5.1.1 unknown; 450 4.2.1 busy
= exit 1

# a failure is a sentence
server down
$ test
! Error: the mail server cannot be reached: Connection refused
= exit 1
"""

Play = Callable[[str], None]


class Server(SmtpServer):
    """Answers as the lines say; where a stage has several answers, each in its turn."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._turns: dict[str, list[str]] = {}
        for line in lines:
            stage, _, answers = line.partition(": ")
            self._turns[stage] = answers.replace(" / ", "\r\n").split(" | ")

    def reply_to(self, stage: str) -> str | Act | None:
        answers = self._turns.get(stage, [])
        answer = answers.pop(0) if len(answers) > 1 else "".join(answers)
        return Act[answer] if answer in Act.__members__ else answer or None


def _ends(status: int) -> str:
    return f"\n= exit {status}" * (status != 0)


def contents(directory: Path) -> dict[str, bytes | None]:
    """All that lies below a directory: the contents of files, None for folders."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def as_said(said: str, expected: str) -> str:
    """What is expected, in which ``...`` stands for anything, if that was said."""
    pattern = ".*".join(map(re.escape, expected.split("...")))
    return expected if re.fullmatch(pattern, said, re.DOTALL) else said


@pytest.fixture
def play(mail: MailCommand, mail_dir: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> Play:
    """Plays a session and fails when it goes another way.

    Given are the messages that are kept, as ``ID STATE AGE`` with a star at those that somebody holds; how the server
    answers, if it is not down and SMTP_HOST names one; settings; and what is typed. After the command come its output
    and error (``!``), its exit status unless that is 0, and, as ``ID STATE TRIES CODE``, what is left unless nothing
    at all has changed in MAIL_DIR, what the server was sent, and what is logged. ``/mail`` is MAIL_DIR.
    """
    caplog.set_level("INFO", logger=cli.__name__)
    clock.wall = NOW - clock.start

    def play(session: str) -> None:
        given, command, expected = re.fullmatch(r"\n?(.*?)\$ (.*?)\n(.*?)\n*", session, re.DOTALL).groups()  # type: ignore[union-attr]
        words = [line.partition(" ")[::2] for line in given.splitlines()]
        facts = dict(words)
        environ = dict(line.split("=", 1) for line in given.splitlines() if "=" in line)
        server = Server([answer for word, answer in words if word == "server" and ": " in answer])
        is_set, is_up = facts.get("server") != "none", facts.get("server") not in ("none", "down")
        with ExitStack() as held, server if is_up else nullcontext():
            for local_part, state, star, age in re.findall(
                r"(\S+) ([a-z, ]*[a-z])(\*?) ?(\d*)(?:; |$)", facts.get("kept", "")
            ):
                kept = keep(mail_dir, letter(local_part), WORDS[state], age=float(age or AGES.get(state, 0)))
                if star:
                    held.enter_context(Spool(mail_dir).claim(kept))
            before = contents(mail_dir.parent)
            arguments = [word.strip("'") for word in command.split()]
            result = mail(*arguments, server=server if is_set else None, input=facts.get("typed"), **environ)
            said = result.stdout.replace(str(mail_dir), "/mail").splitlines()
            said += [f"! {line}" for line in result.stderr.replace(str(mail_dir), "/mail").splitlines()]
            said += [f"= exit {result.exit_code}"] * (result.exit_code != 0)
            if contents(mail_dir.parent) != before:
                left = [f"{it.local_part} {it.state} {it.tries} {it.last_code}" for it in Spool(mail_dir).kept()]
                said.append(f"= left {'; '.join(map(str.strip, left)) or 'nothing'}")
        sent = ["test" if command == "test" else name.strip("<>").partition("@")[0] for name in arrived(server)]
        said += [f"= sent {' '.join(sent)}"] * (sent != [])
        said += [f"= log {it.getMessage()}" for it in caplog.records if it.name == cli.__name__]
        assert as_said("\n".join(said), expected) == expected

    return play


PLAYED = dict(session.split("\n", 1) for session in SESSIONS.split("\n# ")[1:])


@pytest.mark.parametrize("session", PLAYED.values(), ids=PLAYED)
def test_session(play: Play, session: str) -> None:
    play(session)


NAMES_OF_ONE = [
    f"<{FORM}@example.com>",
    f"{FORM}@example.com",
    f"<{FORM}@example.org>",
    f"<{FORM.upper()}@example.com>",
    f"<{FORM}>",
    FORM,
    FORM.upper(),
    "3F0C-9A1B",
    "3f0c-9a1b",
    "3F0c9A1b",
    REQUEST,
    REQUEST.upper(),
]


@pytest.mark.parametrize("name", NAMES_OF_ONE)
def test_a_message_has_several_names(play: Play, name: str) -> None:
    play(f"kept {FORM} new; {OTHER} new\n$ show {name}\n...\nMessage-ID: <{FORM}@example.com>\n...")


@pytest.mark.parametrize("name", ["9", "3F0C-9A1C", "3f0c", "1" * 32, FORM[:-1]])
def test_no_other_name_stands_for_it(play: Play, name: str) -> None:
    play(f"kept {FORM} new; {OTHER} new\n$ show {name}\n! Error: {name} is not in MAIL_DIR\n= exit 1")


@pytest.mark.parametrize(("name", "shown"), [("3f0c9a1b", "3F0C-9A1B"), (REQUEST, REQUEST)])
def test_a_name_of_several_messages_is_an_error_that_lists_them(play: Play, name: str, shown: str) -> None:
    several = f"! Error: {shown} stands for several messages. Name one of them:\n! {FORM}\n! {TWIN}"
    play(f"kept {TWIN} new; {FORM} new; {OTHER} new\n$ show {name}\n{several}\n= exit 1")


@pytest.mark.parametrize("name", ["''", "<>", "@example.com"])
@pytest.mark.parametrize("command", ["show", "resend", "drop --yes"])
def test_an_empty_id_is_a_usage_error(play: Play, command: str, name: str) -> None:
    play(f"kept 1 new\n$ {command} {name}\n! ...: the ID is empty\n= exit 2")


@pytest.mark.parametrize(
    ("store", "status", "line"),
    [
        ("", 0, "OK - nothing is kept"),
        ("1 new 840", 0, "OK - 1 waiting; the oldest waits for 14 min"),
        ("1 new 900", 0, "OK - 1 waiting; the oldest waits for 15 min"),
        ("1 new 901; 2 new", 1, "WARNING - 2 waiting; the oldest waits for 15 min"),
        ("1 new 3600", 1, "WARNING - 1 waiting; the oldest waits for 1 h"),
        ("1 new 3601", 2, "CRITICAL - 1 waiting; the oldest waits for 1 h"),
        ("1 refused", 1, "WARNING - 1 refused"),
        ("1 in doubt", 1, "WARNING - 1 in doubt"),
        ("1 sending*", 0, "OK - 1 waiting; the oldest waits for 0 s"),
        ("1 sending", 1, "WARNING - 1 in doubt"),
        ("1 given up", 2, "CRITICAL - 1 given up"),
        (
            "1 given up; 2 refused; 3 in doubt; 4 new 1200; 5 new",
            2,
            "CRITICAL - 2 waiting, 1 in doubt, 1 refused, 1 given up; the oldest waits for 20 min",
        ),
        (f"{EACH}\nserver none", 0, "OK - SMTP_HOST is not set; 6 stored"),
        ("1 refused\nserver down", 2, "CRITICAL - the mail server cannot be reached: Connection refused; 1 refused"),
        (
            "\nSMTP_TIMEOUT=0.3\nserver EHLO: HANG",
            2,
            "CRITICAL - the mail server did not answer within SMTP_TIMEOUT; nothing is kept",
        ),
        (
            "\nSMTP_USERNAME=web\nSMTP_PASSWORD=x\nserver EHLO: 250-x / 250 AUTH PLAIN\nserver AUTH: 535 5.7.8 no",
            2,
            "CRITICAL - the mail server refused SMTP_USERNAME with SMTP_PASSWORD: 535 5.7.8 no; nothing is kept",
        ),
    ],
)
def test_the_status_is_a_line_and_a_level(play: Play, store: str, status: int, line: str) -> None:
    play(f"kept {store}\n$ status\n{line}{_ends(status)}")


@pytest.mark.parametrize(
    ("server", "said", "state", "sent"),
    [
        ("connect: 421 busy", "not delivered: ...", "waiting 1 421", ""),
        ("RCPT: 450 4.7.1 slow down", "not delivered: ...", "waiting 1 450", ""),
        (
            "message: DROP",
            "in doubt: no answer came, and the mail server may have taken the message",
            "in doubt 1",
            "\n= sent 0 1",
        ),
    ],
)
def test_a_server_that_fails_twice_in_a_row_is_not_tried_again(
    play: Play, server: str, said: str, state: str, sent: str
) -> None:
    play(
        f"kept 0 new; 1 new; 2 new\nserver {server}\n$ resend\n1/3 0 {said}\n2/3 1 {said}\n"
        "! the mail server failed 2 times in a row: the others were not tried\n! 2 handled, 3 undelivered\n"
        f"= exit 1\n= left 0 {state}; 1 {state}; 2 waiting 0{sent}"
    )


@pytest.mark.parametrize("state", ["waiting", "in doubt"])
def test_a_server_that_is_down_changes_no_state_and_is_told_without_a_name_of_python(play: Play, state: str) -> None:
    play(
        f"kept 1 {state}\nserver down\n$ resend\n"
        "1/1 1 not delivered: the mail server cannot be reached: Connection refused\n! 1 handled, 1 undelivered\n"
        f"= exit 1\n= left 1 {state} 2 ConnectionRefusedError"
    )


@pytest.mark.parametrize("name", ["<1@example.com>", "1@example.com", "1"])
def test_drop_deletes_the_named_message_alone_and_the_log_names_it_and_no_more(play: Play, name: str) -> None:
    play(f"kept 1 new; 2 new\n$ drop --yes {name}\n! 1 dropped\n= left 2 waiting 0\n= log message 1 dropped")


STATES = ["5 given up 35 451", "1 waiting 1 451", "0 waiting 0", "2 in doubt 1", "3 in doubt 2 451", "4 refused 1 550"]


@pytest.mark.parametrize(
    ("state", "dropped"),
    [("waiting", "10"), ("in-doubt", "23"), ("refused", "4"), ("given-up", "5"), ("Given-Up", "5"), ("stored", "")],
)
def test_drop_deletes_all_in_a_state_and_no_other(play: Play, state: str, dropped: str) -> None:
    left = f"\n= left {'; '.join(line for line in STATES if line[0] not in dropped)}" * bool(dropped)
    log = "".join(f"\n= log message {number} dropped" for number in dropped)
    play(f"kept {EACH}\n$ drop --yes --state {state}\n! {len(dropped)} dropped{left}{log}")


@pytest.mark.parametrize(
    ("age", "seconds"), [("45s", 45), ("90m", 5_400), ("12h", 43_200), ("30d", 30 * DAY), ("0s", 0)]
)
def test_drop_deletes_only_what_is_older(play: Play, age: str, seconds: int) -> None:
    kept = f"1 new {seconds}; 2 new {seconds - 1}" if seconds else "1 new"
    left = "2 waiting 0" if seconds else "nothing"
    play(
        f"kept {kept}\n$ drop --yes --state waiting --older-than {age}\n"
        f"! 1 dropped\n= left {left}\n= log message 1 dropped"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "give either IDs or --state"),
        ("--yes", "give either IDs or --state"),
        ("--older-than 1d", "give either IDs or --state"),
        ("--state waiting 1", "give either IDs or --state"),
        ("--older-than 1d 1", "--older-than needs --state"),
        (
            "--state lost",
            "Invalid value for '--state': 'lost' is not one of 'waiting', 'in-doubt', 'refused', 'given-up', 'stored'.",
        ),
        *(
            (f"--state waiting --older-than '{age}'", f"{age!r} is not an age such as 30d, 12h, 90m or 45s")
            for age in ("30", "d", "-1d", "1.5h", "1w", "1d2h", "٣d", "")
        ),
    ],
)
def test_drop_deletes_nothing_when_it_is_not_clear_what(play: Play, arguments: str, said: str) -> None:
    play(f"kept 1 new {90 * DAY}\n$ drop {arguments}\n! ...\n! Error: ...{said}\n= exit 2")


@pytest.mark.parametrize("typed", ["typed n\n", "typed \n", ""], ids=["no", "nothing", "end of file"])
@pytest.mark.parametrize("chosen", ["1 2", "--state waiting"])
def test_drop_deletes_nothing_without_a_yes(play: Play, chosen: str, typed: str) -> None:
    asked = "   AGE  FORM ...  2\nDelete permanently (2)? [y/N]: ...! Aborted!"
    play(f"kept 1 new 9; 2 new\n{typed}$ drop {chosen}\n{asked}\n= exit 1")


@pytest.mark.parametrize("state", ["new", "sending"])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("drop --yes 1", f"! 1 is {SKIPPED}\n! 0 dropped"),
        ("drop --yes --state waiting", f"! 1 is {SKIPPED}\n! 0 dropped"),
        ("resend", f"1/1 1 {SKIPPED}\n! 1 handled, 1 undelivered"),
    ],
)
def test_what_somebody_else_holds_is_skipped(play: Play, state: str, command: str, said: str) -> None:
    play(f"kept 1 {state}*\n$ {command}\n{said}\n= exit 1")


@pytest.mark.parametrize("command", ["resend", "test"])
def test_what_needs_a_mail_server_says_so_without_one(play: Play, command: str) -> None:
    unset = f"SMTP_HOST is not set: there is no mail server to hand messages to: {LOADED}"
    play(f"kept 1 new\nserver none\n$ {command}\n! Error: {unset}\n= exit 1")


@pytest.mark.parametrize("command", ["list", "show 1", "resend", "drop 1 --yes", "drop --state refused --yes"])
def test_a_directory_that_is_gone_or_cannot_be_read_is_told_in_one_line(
    play: Play, mail_dir: Path, command: str
) -> None:
    (mail_dir / "new").rmdir()
    (mail_dir / "new").touch()
    play(f"$ {command}\n! Error: '/mail/new': Not a directory\n= exit 1")

    shutil.rmtree(mail_dir)
    play(f"$ {command}\n! Error: MAIL_DIR='/mail' does not exist: {LOADED}\n= exit 1")


@pytest.mark.parametrize("server", ["server none\n", ""])
def test_a_directory_that_is_gone_is_critical_and_one_that_was_never_used_is_well(
    play: Play, mail_dir: Path, server: str
) -> None:
    for folder in mail_dir.iterdir():
        folder.rmdir()
    play(f"{server}$ status\nOK - {'SMTP_HOST is not set; ' if server else ''}nothing is kept")

    mail_dir.rmdir()
    play(f"{server}$ status\nCRITICAL - MAIL_DIR='/mail' does not exist\n= exit 2")


@pytest.mark.parametrize("folder", ["tmp", "new", "cur"])
def test_a_folder_that_takes_no_file_is_critical(play: Play, mail_dir: Path, folder: str) -> None:
    (mail_dir / folder).rmdir()
    (mail_dir / folder).touch()
    play("$ status\nCRITICAL - MAIL_DIR='/mail' takes no message: Not a directory\n= exit 2")


def test_a_message_in_two_files_is_no_ambiguity(play: Play, mail_dir: Path) -> None:
    kept = keep(mail_dir, letter(FORM))
    (mail_dir / "cur" / f"{kept.unique}{NAMES['waiting']}:2,S").write_bytes((mail_dir / kept.path).read_bytes())

    play(f"$ show 3F0C-9A1B\n...\nMessage-ID: <{FORM}@example.com>\n...")


def test_a_message_that_is_cut_off_is_not_sent(play: Play, mail_dir: Path) -> None:
    path = mail_dir / keep(mail_dir, letter(1)).path
    path.write_bytes(path.read_bytes()[:-1])

    play("$ resend\n1/1 1 not delivered: ...\n! 1 handled, 1 undelivered\n= exit 1")


@pytest.mark.parametrize(("command", "told"), [("test", "Error: {}"), ("resend", "1/1 1 not delivered: {}")])
def test_the_words_of_the_server_give_a_terminal_no_commands(
    mail: MailCommand, mail_dir: Path, command: str, told: str
) -> None:
    keep(mail_dir, letter(1))
    reply = "550-5.7.1 \x1b]0;title\x07uno\r\n550 5.7.1 dos\x9b31m\u202e ñ"
    sentence = "the mail server refused the sender: 550 5.7.1 ]0;title uno 5.7.1 dos 31m ñ\n"
    with SmtpServer({"MAIL": reply}) as server:
        assert mail(command, server=server).output.startswith(told.format(sentence))


@pytest.mark.parametrize("command", ["test", "resend"])
def test_300_characters_of_a_long_answer_are_shown(mail: MailCommand, mail_dir: Path, command: str) -> None:
    keep(mail_dir, letter(1))
    with SmtpServer({"message": f"250 \x1b{'x' * 1000}"}) as server:
        assert mail(command, server=server).stdout.endswith(f": 250 {'x' * 296}\N{HORIZONTAL ELLIPSIS}\n")


def test_list_shows_a_message_in_a_row_and_in_json_with_nothing_personal(
    mail: MailCommand, absent_server: SmtpServer, mail_dir: Path, clock: Clock
) -> None:
    clock.wall = NOW - clock.start
    for local_part, form_type, age, name in (
        (FORM, "demo", 90, NAMES["new"]),
        ("2", "ventas", 7_300, f",tries=4,last={NOW - 700}.000,waiting=451.ventas"),
        ("3", "demo", 7_200, f",tries=2,last={NOW - 3_601}.000,waiting=ConnectionRefusedError.demo"),
        ("4", "distribuidor", 3_000, f",tries=1,last={NOW - 2_999}.000,waiting=.distribuidor.doubt"),
        ("5", "demo", 59, f",tries=1,last={NOW - 58}.000,refused=550.demo"),
        ("6", "demo", 6 * DAY, f",tries=35,last={NOW - 900}.000,waiting=TimeoutError.demo"),
    ):
        keep(mail_dir, letter(local_part, form_type), name, age=age)

    assert mail("list", server=absent_server).stdout.splitlines() == [
        "   AGE  FORM          REFERENCE  TRIES  LAST CODE               NEXT TRY   STATE     MESSAGE-ID",
        "   6 d  demo          -             35  TimeoutError            -          given up  6",
        "   2 h  ventas        -              4  451                     in 1 h     waiting   2",
        "   2 h  demo          -              2  ConnectionRefusedError  now        waiting   3",
        "50 min  distribuidor  -              1  -                       -          in doubt  4",
        f" 1 min  demo          3F0C-9A1B      0  -                       now        waiting   {FORM}",
        "  59 s  demo          -              1  550                     -          refused   5",
    ]
    document = json.loads(mail("list", "--json", server=absent_server).stdout)["messages"]
    assert [(message["state"], message["next_try_at"] is None) for message in document] == [
        ("given up", True),
        ("waiting", False),
        ("waiting", False),
        ("in doubt", True),
        ("waiting", False),
        ("refused", True),
    ]
    assert document[1] == {
        "message_id": "2",
        "reference": None,
        "state": "waiting",
        "attempts": 4,
        "last_code": "451",
        "last_try_at": "2026-11-22T07:48:20+00:00",
        "next_try_at": "2026-11-22T09:38:20+00:00",
        "stored_at": "2026-11-22T05:58:20+00:00",
        "age_seconds": 7_300,
        "form_type": "ventas",
    }
    assert document[4] == {
        "message_id": FORM,
        "reference": "3F0C-9A1B",
        "state": "waiting",
        "attempts": 0,
        "last_code": None,
        "last_try_at": None,
        "next_try_at": "2026-11-22T07:59:30+00:00",
        "stored_at": "2026-11-22T07:58:30+00:00",
        "age_seconds": 90,
        "form_type": "demo",
    }


def compose(**changes: object) -> Message:
    values, _ = validate(contact_body(**changes))
    composer = Composer(Mailbox("web@example.com"), lambda _: [Mailbox("ventas@example.com")], UTC_ZONE)
    return composer.compose(values, REQUEST)


def test_show_decodes_header_and_text(mail: MailCommand, mail_dir: Path) -> None:
    address = f"{'m' * 64}@{'.'.join(['d' * 60] * 3)}.com"
    long_line = ("Quisiera una demostración. " * 20).strip()
    keep(mail_dir, compose(nombre="Ñ" * 200, email=address, mensaje=long_line), age=7_300)

    row, header, text = mail("show", REQUEST).stdout.split("\n\n", 2)

    assert f"{row}\n" == mail("list").stdout
    assert "Subject: Demo: Comercio Ejemplo S.L. · 3F0C-9A1B" in header.splitlines()
    assert f"Reply-To: {'Ñ' * 200} <{address}>" in header.splitlines()
    assert long_line in text.splitlines()
    assert "<" not in text


UTF_8 = b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"

TEXTS: dict[str, tuple[bytes, str]] = {
    "no part that is text": (b"\r\nContent-Type: text/html\r\n\r\n<p>Hola</p>", "(no text)"),
    "no charset": (b"\r\n\r\nHola", "Hola"),
    "an unknown charset": (b"\r\nContent-Type: text/plain; charset=klingon\r\n\r\nHola", "Hola"),
    "bytes that are not UTF-8": (UTF_8 + b"a=FFb", "a\ufffdb"),
    "right-to-left text and joined emoji, as the letter has them": (
        UTF_8 + b"a: =E2=81=A8=D7=A9=E2=81=A9 =F0=9F=91=A9=E2=80=8D=F0=9F=91=A9",
        "a: \u2068ש\u2069 👩\u200d👩",
    ),
    "controls": (
        UTF_8 + b"a=1B[2J=07=00=7F=C2=9Bb=09c=0D=0Ad=0De=0Cf=C2=A0g=E2=80=A8h=E2=80=AEi=E2=81=A6j=EF=BB=BFk",
        "a\\x1b[2J\\x07\\x00\\x7f\\x9bb\tc\nd\ne f g\nh\\u202ei\\u2066j\\ufeffk",
    ),
}


FIELDS = {
    b"X: =?utf-8?q?uno=0D=0ABcc=3A_x=1B[2J?=\r\n =?utf-8?q?_dos=E2=80=AE_=C3=B1?=": "X: uno Bcc: x [2J dos ñ",
    b"X: =?klingon?q?a?= =?utf-8?b?x?=\r\n\ttres\x1b[2J": "X: =?klingon?q?a?= =?utf-8?b?x?= tres [2J",
    b"X: =?klingon?q?a?=": "X: =?klingon?q?a?=",
    b"X: =?utf-8?q?=FF?=": "X: =?utf-8?q?=FF?=",
}


def show(mail: MailCommand, mail_dir: Path, old: bytes, new: bytes) -> tuple[str, str]:
    """The header and the text of a message in which one part is another."""
    keep(mail_dir, Message("<1@example.com>", letter(1).content.replace(old, new)))
    _, header, text = mail("show", "1").stdout.split("\n\n", 2)
    return header, text


@pytest.mark.parametrize(("content", "text"), TEXTS.values(), ids=TEXTS)
def test_show_gives_a_terminal_no_commands_of_the_text(
    mail: MailCommand, mail_dir: Path, content: bytes, text: str
) -> None:
    assert show(mail, mail_dir, b"\r\n\r\nHola", content)[1] == f"{text}\n"


@pytest.mark.parametrize(("field", "shown"), FIELDS.items())
def test_nor_of_the_header(mail: MailCommand, mail_dir: Path, field: bytes, shown: str) -> None:
    header, _ = show(mail, mail_dir, b"MIME", field + b"\r\nMIME")

    assert f"\n{shown}\nMIME-Version: 1.0\n" in header


def test_resend_sends_the_messages_as_they_are_over_one_connection_a_second_apart(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(cli, "GAP", GAP)
    monkeypatch.setattr(time, "sleep", slept.append)
    for number in range(3):
        keep(mail_dir, letter(number))

    with SmtpServer() as server:
        mail("resend", server=server)

    assert [it.content.splitlines() for it in server.arrivals] == [letter(n).content.splitlines() for n in range(3)]
    assert (len(server.connections), slept) == (1, [1.0] * 2)


def test_the_test_message_shows_the_names_and_its_envelope_has_the_addresses_alone(mail: MailCommand) -> None:
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


@pytest.mark.parametrize(
    ("call", "error", "session"),
    [
        (
            "os.unlink",
            PermissionError(1, "not permitted"),
            "drop --yes 1\n! 1 stays: not permitted\n! 0 dropped\n= exit 1",
        ),
        ("Spool.read", FileNotFoundError(2, "gone", "/mail/new/1"), "show 1\n! Error: '/mail/new/1': gone\n= exit 1"),
        ("Spool.kept", PermissionError(13, "denied"), "status\nCRITICAL - {0}: denied\n= exit 2"),
        ("Spool.kept", ZeroDivisionError("x"), "status\nCRITICAL - {0}: ZeroDivisionError\n= exit 2"),
    ],
)
def test_a_failure_of_the_disk_is_told_in_one_line(
    play: Play, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception, session: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"app.mail.spool.{call}", Mock(side_effect=error))
        play(f"kept 1 new\n$ {session.format('the mail cannot be checked')}")


@pytest.mark.parametrize(
    ("disk", "command", "status", "out", "err"),
    [
        (disks.READ_ONLY, "list", 0, "...  stored    1\n", "1 undelivered\n"),
        (disks.READ_ONLY, "show 1", 0, "...\nSubject: Prueba\n...", ""),
        (disks.READ_ONLY, "resend", 1, "", "...Error: MAIL_DIR cannot be written, so no message could be removed\n"),
        (disks.READ_ONLY, "drop --yes 1", 1, "", "Error: MAIL_DIR cannot be written, so no message could be removed\n"),
        (disks.READ_ONLY, "status", 2, "CRITICAL - MAIL_DIR='/mail' cannot be written\n", ""),
        (disks.FULL, "status", 2, "CRITICAL - MAIL_DIR='/mail' takes no message: No space left on device\n", ""),
        (FULL_WITH_A_MESSAGE, "resend", 0, "1/1 1 delivered: 250 2.0.0 taken\n", "...1 handled, 0 undelivered\n"),
    ],
)
def test_on_a_disk_that_takes_nothing(
    mail_dir: Path, tmp_path: Path, disk: str, command: str, status: int, out: str, err: str
) -> None:
    path = mail_dir / keep(mail_dir, letter(1)).path
    shutil.copy(path, tmp_path)
    with SmtpServer() as server:
        environ = server.environ if command == "resend" else {}
        result = disks.run(disk, tmp_path, [*FLASK_MAIL, *command.split()], **environ)

    said = [text.replace(str(mail_dir), "/mail") for text in (result.stdout, result.stderr)]
    assert (result.returncode, as_said(said[0], out), as_said(said[1], err)) == (status, out, err)
    assert len(server.arrivals) == (not status and command == "resend")


class TestTyped:
    """In a process of its own, as an operator types it."""

    def test_a_status_is_one_line(self, mail_dir: Path) -> None:
        keep(mail_dir, letter(1))
        result = run([*FLASK_MAIL, "status"], mail_dir)

        assert (result.returncode, result.stdout, result.stderr) == (0, "OK - SMTP_HOST is not set; 1 stored\n", "")

    def test_a_mistyped_directory_is_told_in_one_line_and_not_made(self, tmp_path: Path) -> None:
        mistyped = tmp_path / "mial"
        result = run([*FLASK_MAIL, "list"], mistyped, {"LOG_LEVEL": "warning"})

        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == f"Error: MAIL_DIR='{mistyped}' does not exist: {LOADED}\n"
        assert not mistyped.exists()

    def test_a_reader_who_has_seen_enough_ends_a_list_quietly(self, mail_dir: Path) -> None:
        for number in range(1_000):
            keep(mail_dir, letter(number))

        # Without buffers, Python takes a write that is cut short for a whole one.
        buffered = {"PYTHONUNBUFFERED": ""}
        result = run(["sh", "-c", '"$@" | head -n 1', "sh", *FLASK_MAIL, "list"], mail_dir, buffered)

        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("   AGE  FORM ")


def test_the_help_says_in_a_whole_sentence_what_each_command_does_and_how_it_ends(mail: MailCommand) -> None:
    commands = mail("--help").stdout.partition("Commands:\n")[2].splitlines()

    assert [line.split()[0] for line in commands] == ["drop", "list", "resend", "show", "status", "test"]
    assert [line for line in commands if not re.fullmatch(r"  \w+ +[A-Z][^.]+\.", line)] == []
    pages = {line.split()[0]: " ".join(mail(line.split()[0], "--help").stdout.split()) for line in commands}
    assert [command for command, page in pages.items() if "Usage" not in page or "exit status" not in page] == []
    assert (
        "OK, exit status 0 none of the following"
        " WARNING, exit status 1 the oldest waiting message is older than 15 min, or a message is refused or in doubt"
        " CRITICAL, exit status 2 the oldest waiting message is older than 1 h, or a message is given up,"
        " or the mail server would take no message now, or MAIL_DIR does not exist, cannot be written or is full,"
    ) in pages["status"]
