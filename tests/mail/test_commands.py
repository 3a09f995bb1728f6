"""flask mail as an operator sees it: what a command says, and what it sends, logs and leaves in MAIL_DIR."""

import errno
import json
import os
import re
import shlex
import shutil
import sys
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from app import create_app
from app.mail import cli
from app.mail.message import Message
from app.mail.queued import SENDING
from app.mail.redelivery import GAP
from app.mail.spool import Spool
from tests.factories import make_settings
from tests.mail.conftest import DAY, NAMES, REQUEST, Clock, MailCommand, arrived, keep, kept, numbered
from tests.mail.server import Act, SmtpServer
from tests.programs import run
from tests.server.gunicorn import ROOT
from tests.timeline import assert_went

NOW = 1_795_334_400
"""2026-11-22 08:00:00, at which each session takes place."""

BEING_SENT = f",tries=1,last={{stored}},waiting=.demo{SENDING}"
EACH = "; ".join(f"{number} {state}" for number, state in enumerate(NAMES))
"""A message in each state: 0 new, 1 waiting, 2 in doubt, 3 in doubt, then deferred, 4 refused, 5 given up."""

FORM = f"{REQUEST}.0123456789abcdef"
"""The local part of a message that a form has made."""

TWIN, OTHER = f"{REQUEST}.ffffffffffffffff", f"{'0' * 32}.0123456789abcdef"
FORMS = f"kept {TWIN} new; {FORM} new; {OTHER} new; 1 new"
LOADED = "are the service's settings loaded?"
SKIPPED = "skipped: the service is sending it or has just tried"
REFUSED = "the mail server refused"
DOWN = "the mail server cannot be reached: Connection refused"
NO_ANSWER = "in doubt: no valid reply, so the mail server may have taken the message"
STOPS = "! the mail server failed: the others were not tried"

SESSIONS = f"""
# without a mail server all are stored
kept 0 new; 1 refused
server none $ list
   AGE  ...  -             stored    0
...  -             stored    1
! 2 undelivered
# those that are named are sent again
kept 1 new; 2 new; 3 new; 4 new $ resend 3 <1@example.com>
1/2 1 delivered: ...
2/2 3 delivered: ...
! 2 handled, 2 undelivered
= left 2 waiting 0; 4 waiting 0 | sent 1 3
# a resend without names sends all, in any state, and what was being sent when its process died
kept {EACH}; 6 sending $ resend
1/7 0 delivered: 250 2.0.0 taken
...
7/7 5 delivered: 250 2.0.0 taken
! 7 handled, 0 undelivered
= left nothing | sent 0 1 2 4 6 3 5
# a resend of what waits begins with the fewest attempts
kept {EACH} $ resend --waiting
1/2 0 delivered: ...
2/2 1 delivered: ...
! 2 handled, 4 undelivered
= left 5 given up 35 451; 2 in doubt 1; 3 in doubt 2 451; 4 refused 1 550 | sent 0 1
# a refusal of one message lets it go on, and no answer ends it
kept 0 new; 1 new; 2 new; 3 new; 4 new; 5 new
server message: 554 no | 451 later | 250 OK | DROP $ resend
1/6 0 not delivered: {REFUSED} the message: 554 no
2/6 1 not delivered: {REFUSED} the message: 451 later
3/6 2 delivered: 250 OK
4/6 3 {NO_ANSWER}
{STOPS}
! 4 handled, 5 undelivered
= exit 1 | left 0 refused 1 554; 1 waiting 1 451; 3 in doubt 1; 4 waiting 0; 5 waiting 0 | sent ...
# the next time it begins with those that were not tried, and a server that takes no more messages ends it
kept 0 waiting; 1 new; 2 new
server MAIL: 421 closing $ resend
1/3 1 not delivered: the mail server closes the connection: 421 closing
{STOPS}
! 1 handled, 3 undelivered
= exit 1 | left 0 waiting 1 451; 1 waiting 1 421; 2 waiting 0
# a server that is down is tried once, told without a name of Python, and changes no state
kept 1 in doubt; 2 waiting; 3 waiting
server down $ resend
1/3 2 not delivered: {DOWN}
{STOPS}
! 1 handled, 3 undelivered
= exit 1 | left 2 waiting 2 connection; 3 waiting 1 451; 1 in doubt 1
# an answer gives a terminal no commands, and 300 characters of it are shown
kept 1 new
server message: 250 \x1b{"x" * 1000} $ resend
1/1 1 delivered: 250 {"x" * 296}\N{HORIZONTAL ELLIPSIS}
! 1 handled, 0 undelivered
= left nothing | sent 1
# each recipient of a test is named once, with the reply if it was refused
server b@example.com: 550 5.1.1 unknown
MAIL_FROM=Formulario de España <web@example.com>
SALES_EMAIL_DEMO="Demos, UY" <demo@example.com>
SALES_EMAIL_VENTAS=demo@example.com,b@example.com
$ test
ventas@example.com: accepted
demo@example.com: accepted
b@example.com: refused: 550 5.1.1 unknown
the mail server took the message: 250 2.0.0 taken
= exit 1 | sent test
# all recipients of a test are refused, in words of an unknown charset and with a terminal's command
server RCPT: 550 5.1.1 a\udcf1ejo\x1b[0m | 450 4.2.1 busy
SALES_EMAIL=b@example.com,c@example.com
$ test
b@example.com: refused: 550 5.1.1 a\N{REPLACEMENT CHARACTER}ejo [0m
c@example.com: refused: 450 4.2.1 busy
! Error: {REFUSED} every recipient: 550 5.1.1 a\N{REPLACEMENT CHARACTER}ejo [0m; 450 4.2.1 busy
= exit 1
# a message that is cut off is not sent
kept 1 new
store cut $ resend
1/1 1 not delivered: the message is cut off
! 1 handled, 1 undelivered
= exit 1
# what somebody else holds is not sent
kept 1 sending* $ resend
1/1 1 {SKIPPED}
! 1 handled, 1 undelivered
= exit 1
# what somebody else holds is not deleted
kept 1 new* $ drop --yes 1
! 1 is {SKIPPED}
! 0 dropped
= exit 1
# names may be mixed, and one given twice
kept {FORM} new; 2 new; 3 new $ drop --yes 3f0c9a1b {REQUEST} <2@example.com>
! 2 dropped
= left 3 waiting 0 | log message 2 dropped | log message {FORM} dropped
# a drop of all in a state
kept {EACH} $ drop --yes --state in-doubt
! 2 dropped
= left 5 given up 35 451; 1 waiting 1 451; 0 waiting 0; 4 refused 1 550 | log message 2 dropped | log message 3 dropped
# a yes deletes what was shown
kept 1 new 9; 2 new; 3 refused
typed y $ drop --state waiting
   AGE  FORM ...  1
   0 s  ...  2
Delete permanently (2)? [y/N]: y
! 2 dropped
= left 3 refused 1 550 | log message 1 dropped | log message 2 dropped
# an empty line is no yes
kept 1 new; 2 new
typed $ drop 1 2
   AGE  FORM ...
Delete permanently (2)? [y/N]: ...! Aborted!
= exit 1
# where there is nothing to delete nobody is asked
kept 1 new $ drop --state refused
! 0 dropped
"""
PLAYED = dict(session.split("\n", 1) for session in SESSIONS.split("\n# ")[1:])

FOUND = f"   AGE  ...  3F0C-9A1B  ...  waiting   {FORM}\n\nFrom: ...\nMessage-ID: <{FORM}@example.com>\n...\n\nHola"
ONE = [f"<{FORM}@example.com>", FORM.upper(), REQUEST, "3F0C-9A1B", "3f0c9a1b"]
PLAYED |= {f"show {name}": f"kept {FORM} new; {OTHER} new $ show {name}\n{FOUND}" for name in ONE}

SEVERAL = f"matches several messages. Name one of them:\n! {FORM}\n! {TWIN}"
UNSET = f"SMTP_HOST is not set: no mail server to send messages to: {LOADED}"
ERRORS = {
    "kept 1 new $ resend <1@example.com> <9@example.com> 8": "9 is not in MAIL_DIR",
    "kept 1 new $ drop --yes <1@example.com> <9@example.com> dead-beef": "9 is not in MAIL_DIR",
    f"{FORMS} $ show {FORM[:-1]}": f"{FORM[:-1]} is not in MAIL_DIR",
    f"{FORMS} $ show {REQUEST}": f"{REQUEST} {SEVERAL}",
    f"{FORMS} $ drop --yes 1 3F0C-9A1B": f"3F0C-9A1B {SEVERAL}",
    "kept 1 new\nserver none $ resend": UNSET,
    "server none $ test": UNSET,
    "server down $ test": DOWN,
    "store new $ list": "'/mail/new': Not a directory",
    "store gone $ list": f"MAIL_DIR='/mail' does not exist: {LOADED}",
}
PLAYED |= {session: f"{session}\n! Error: {said}\n= exit 1" for session, said in ERRORS.items()}

OLDER = {"45s": 45, "90m": 5_400, "12h": 43_200, "30d": 30 * DAY}
PLAYED |= {
    f"drop what is older than {age}": f"kept 1 new {seconds}; 2 new {seconds - 1} $ drop --yes --state waiting"
    f" --older-than {age}\n! 1 dropped\n= left 2 waiting 0 | log message 1 dropped"
    for age, seconds in OLDER.items()
}

MISUSED = {
    "resend ''": "the ID is empty",
    "drop --yes <@a.com>": "the ID is empty",
    "resend --waiting 1": "give either IDs or --waiting",
    "drop --yes": "give either IDs or --state",
    "drop --state waiting 1": "give either IDs or --state",
    "drop --older-than 1d 1": "--older-than needs --state",
    "drop --state waiting --older-than 30": "'30' is not an age such as 30d, 12h, 90m or 45s",
}
PLAYED |= {it: f"kept 1 new {90 * DAY} $ {it}\n! ...\n! Error: ...{said}\n= exit 2" for it, said in MISUSED.items()}

EXITS = {"OK": "", "WARNING": "\n= exit 1", "CRITICAL": "\n= exit 2"}
WRONG = "SMTP_USERNAME=web\nSMTP_PASSWORD=x\nserver EHLO: 250-x / 250 AUTH PLAIN\nserver AUTH: 535 5.7.8 no"
HALF_SET = "SMTP_HOST is not set: forms reach nobody"
NEWER = f"new/{'9' * 19}.7.3,tries=1,last=1700000000.000,waiting=451.demo.held"
UNREADABLE = f"2 files that this release cannot read, such as {NEWER!r}"
STATUSES = {
    "server up": "OK - no messages",
    "server none": "OK - SMTP_HOST is not set; no messages",
    "store unused": "OK - no messages",
    "kept 1 new; 2 refused\nserver none": "WARNING - SMTP_HOST is not set: forms reach nobody; 2 stored",
    "server none\nSALES_EMAIL=ana@example.com": f"WARNING - {HALF_SET}; no messages",
    "server none\nSALES_EMAIL_DEMO=ana@example.com": f"WARNING - {HALF_SET}; no messages",
    "store newer": f"WARNING - no messages, {UNREADABLE}",
    "kept 1 new\nstore newer": f"WARNING - 1 waiting, {UNREADABLE}; oldest waiting for 0 s",
    "kept 1 new 900": "OK - 1 waiting; oldest waiting for 15 min",
    "kept 1 new 901; 2 new": "WARNING - 2 waiting; oldest waiting for 15 min",
    "kept 1 new 3600": "WARNING - 1 waiting; oldest waiting for 1 h",
    "kept 1 new 3601": "CRITICAL - 1 waiting; oldest waiting for 1 h",
    "kept 1 refused": "WARNING - 1 refused",
    "kept 1 sending": "WARNING - 1 in doubt",
    "kept 1 sending*": "OK - 1 waiting; oldest waiting for 0 s",
    f"kept {EACH}": "CRITICAL - 2 waiting, 2 in doubt, 1 refused, 1 given up; oldest waiting for 1 min",
    "kept 1 refused\nserver down": f"CRITICAL - {DOWN}; 1 refused",
    WRONG: f"CRITICAL - {REFUSED} SMTP_USERNAME with SMTP_PASSWORD: 535 5.7.8; no messages",
    "store gone": "CRITICAL - MAIL_DIR='/mail' does not exist",
    "store new": "CRITICAL - MAIL_DIR='/mail' takes no message: Not a directory",
}
PLAYED |= {
    f"{given} $ status": f"{given}\n$ status\n{line}{EXITS[line.partition(' ')[0]]}" for given, line in STATUSES.items()
}


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


def spoil(mail_dir: Path, how: str) -> None:
    """Make a store in which something is not as it should be."""
    match how:
        case "gone":
            shutil.rmtree(mail_dir)
        case "unused":
            shutil.rmtree(mail_dir)
            mail_dir.mkdir()
        case "new":
            (mail_dir / "new").rmdir()
            (mail_dir / "new").touch()
        case "newer":  # beside what another program has stored
            for path in (NEWER, f"{NEWER}:2,S", "new/1700000000.M1P7Q1.host", "new/.hidden"):
                (mail_dir / path).touch()
        case "cut":
            (message,) = (mail_dir / "new").iterdir()
            message.write_bytes(message.read_bytes()[:-1])


def contents(directory: Path) -> dict[str, bytes | None]:
    """All that lies below a directory: the contents of files, None for folders."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def assert_said(said: str, expected: str) -> None:
    """Fail unless that was said; ``...`` stands for anything."""
    __tracebackhide__ = True

    def is_said(said: str, expected: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), said, re.DOTALL) is not None

    if not is_said(said, expected):
        rest, went = expected.splitlines(), list[str]()
        for line in said.splitlines():
            number = next((number for number, it in enumerate(rest) if it != "..." and is_said(line, it)), None)
            if number is not None:
                went += [*(["..."] if "..." in rest[:number] else []), rest[number]]
                rest = rest[number + 1 :]
            elif rest[:1] != ["..."]:
                went.append(line)
        assert_went(expected.splitlines(), went + [it for it in rest if it == "..."])
        pytest.fail(f"nothing stands where the row has a line of three dots:\n{said}")


@pytest.mark.parametrize("session", PLAYED.values(), ids=PLAYED)
def test_session(
    mail: MailCommand, mail_dir: Path, clock: Clock, caplog: pytest.LogCaptureFixture, session: str
) -> None:
    """Plays a session: what is given, a command behind ``$``, and all that it does.

        kept 1 new 90; 2 refused; 3 sending*    messages as ID STATE SECONDS; somebody holds those with a star
        server RCPT: 450 busy | 250 OK          its answers at a stage, one after the other. ``server down``: nobody
                                                listens; ``server none``: SMTP_HOST is not set
        SALES_EMAIL=b@example.com               a setting; ``store cut`` spoils MAIL_DIR, ``typed y`` is typed
        $ resend 1
        1/1 1 delivered: ...                    the output; ``...`` stands for anything
        ! 1 handled, 2 undelivered              the standard error
        = exit 1 | left 2 refused 1 550; ... | sent 1 | log message 1 dropped

    The last line has what there is of it: an exit status other than 0, what is left as ID STATE ATTEMPTS CODE if
    anything has changed in MAIL_DIR, the messages that the server was sent, and what is logged. ``/mail`` is MAIL_DIR.
    """
    caplog.set_level("INFO", logger=cli.__name__)
    clock.wall = NOW - clock.start
    given, command, expected = re.fullmatch(r"(.*?)\$ (.*?)\n(.*?)\n*", session, re.DOTALL).groups()  # type: ignore[union-attr]
    words = [line.strip().partition(" ")[::2] for line in given.splitlines()]
    facts = dict(words)
    environ = dict(line.strip().split("=", 1) for line in given.splitlines() if "=" in line)
    messages = re.findall(r"(\S+) ([a-z, ]*[a-z])(\*?) ?(\d*)(?:; |$)", facts.get("kept", ""))
    server = Server([answer for word, answer in words if word == "server" and ": " in answer])
    is_set, is_up = facts.get("server") != "none", facts.get("server") not in ("none", "down")
    with ExitStack() as held, server if is_up else nullcontext():
        for local_part, state, star, age in messages:
            name = BEING_SENT if state == "sending" else state
            message = keep(mail_dir, numbered(local_part), name, age=float(age) if age else None)
            if star:
                held.enter_context(Spool(mail_dir).claim(message))
        spoil(mail_dir, facts.get("store", ""))
        before = contents(mail_dir.parent)
        typed = f"{facts.get('typed', '')}\n"
        result = mail(*shlex.split(command), server=server if is_set else None, input=typed, **environ)
        is_changed = contents(mail_dir.parent) != before
        after = kept(mail_dir) if is_changed else []

    sent = ["test" if command == "test" else name.strip("<>").partition("@")[0] for name in arrived(server)]
    done = [f"exit {result.exit_code}"] * (result.exit_code != 0)
    left = "; ".join(f"{it.local_part} {it.state} {it.attempts} {it.last_code}".strip() for it in after)
    done += [f"left {left or 'nothing'}"] * is_changed
    done += [f"sent {' '.join(sent)}"] * (sent != [])
    done += [f"log {it.getMessage()}" for it in caplog.records if it.name == cli.__name__]
    lines = [*result.stdout.splitlines(), *(f"! {line}" for line in result.stderr.splitlines())]
    said = "\n".join(lines + [f"= {' | '.join(done)}"] * (done != [])).replace(str(mail_dir), "/mail")
    assert_said(said, expected)


def test_a_status_that_cannot_be_found_out_is_critical(mail: MailCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spool, "messages", Mock(side_effect=KeyError("maria@example.com")))
    result = mail("status")

    assert (result.exit_code, result.stdout) == (2, "CRITICAL - the mail cannot be checked: KeyError\n")


def test_list_shows_a_message_in_a_row_and_in_json_with_nothing_personal(
    mail: MailCommand, mail_dir: Path, clock: Clock
) -> None:
    clock.wall = NOW - clock.start
    keep(mail_dir, numbered(FORM, "demo"), age=90)
    keep(mail_dir, numbered(2, "ventas"), f",tries=4,last={NOW - 700}.000,waiting=451.ventas", age=7_300)
    keep(mail_dir, numbered(4), f",tries=1,last={NOW - 2_999}.000,waiting=.distribuidor.doubt", age=3_000)
    keep(mail_dir, numbered(6), f",tries=35,last={NOW - 900}.000,waiting=timeout.demo", age=6 * DAY)

    assert mail("list", server=SmtpServer()).stdout.splitlines() == [
        "   AGE  FORM          REFERENCE  ATTEMPTS  LAST CODE        NEXT ATTEMPT  STATE     MESSAGE-ID",
        "   6 d  demo          -                35  timeout          -             given up  6",
        "   2 h  ventas        -                 4  451              in 48 min     waiting   2",
        "50 min  distribuidor  -                 1  -                -             in doubt  4",
        f" 1 min  demo          3F0C-9A1B         0  -                now           waiting   {FORM}",
    ]
    text = mail("list", "--json", server=SmtpServer()).stdout.replace("2026-11-22T", "").replace("+00:00", "Z")
    messages = json.loads(text)["messages"]
    assert [" ".join(message) for message in messages] == [
        "message_id reference state attempts last_code last_attempt_at next_attempt_at stored_at age_seconds form_type"
    ] * len(messages)
    assert [tuple(message.values()) for message in messages] == [
        ("6", None, "given up", 35, "timeout", "07:45:00Z", None, "2026-11-16T08:00:00Z", 518_400, "demo"),
        ("2", None, "waiting", 4, "451", "07:48:20Z", "08:48:20Z", "05:58:20Z", 7_300, "ventas"),
        ("4", None, "in doubt", 1, None, "07:10:01Z", None, "07:10:00Z", 3_000, "distribuidor"),
        (FORM, "3F0C-9A1B", "waiting", 0, None, None, "07:59:30Z", "07:58:30Z", 90, "demo"),
    ]


UTF_8 = b"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
CONTROLS = b"a=1B[2J=07=00=7F=C2=9Bb=09c=0D=0Ad=0De=0Cf=C2=A0g=E2=80=A8h=E2=80=AEi=E2=81=A6j=EF=BB=BFk=FF"
VISIBLE = "\n\na\\x1b[2J\\x07\\x00\\x7f\\x9bb\tc\nd\ne f g\nh\\u202ei\\u2066j\\ufeffk\ufffd\n"
HIDDEN = b"=?utf-8?q?uno=0D=0ABcc=3A_x=1B[2J?=\r\n =?utf-8?q?_dos=E2=80=AE_=C3=B1?="
MESSAGE_OF_FORMS = b"a: =E2=81=A8=D7=A9=E2=81=A9 =F0=9F=91=A9=E2=80=8D=F0=9F=91=A9"
BODY = b"\r\n\r\nHola"
LETTERS = {
    "no part that is text": (BODY, b"\r\nContent-Type: text/html\r\n\r\n<p>Hola</p>", "\n\n(no text)\n"),
    "right-to-left text and joined emoji": (BODY, UTF_8 + MESSAGE_OF_FORMS, "\n\na: \u2068ש\u2069 👩\u200d👩\n"),
    "controls in the text": (BODY, UTF_8 + CONTROLS, VISIBLE),
    "controls in a field": (b"Prueba", HIDDEN, "\nSubject: uno Bcc: x [2J dos ñ\n"),
    "an unknown charset": (b"Prueba", b"=?klingon?q?a?=\r\n\ttres\x1b[2J", "\nSubject: =?klingon?q?a?= tres [2J\n"),
}
"""A part of a message, what stands in its place, and how it is shown then."""


@pytest.mark.parametrize(("usual", "other", "shown"), LETTERS.values(), ids=LETTERS)
def test_show_decodes_a_message_and_gives_a_terminal_no_commands(
    mail: MailCommand, mail_dir: Path, usual: bytes, other: bytes, shown: str
) -> None:
    keep(mail_dir, Message("<1@example.com>", numbered(1).content.replace(usual, other)))

    assert shown in mail("show", "1").stdout


def test_resend_sends_the_messages_as_they_are_over_one_connection_a_second_apart(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(cli, "GAP", GAP)
    monkeypatch.setattr(time, "sleep", slept.append)
    for number in range(3):
        keep(mail_dir, numbered(number))

    with SmtpServer() as server:
        mail("resend", server=server)

    assert [it.content.splitlines() for it in server.arrivals] == [numbered(n).content.splitlines() for n in range(3)]
    assert (len(server.connections), slept) == (1, [1.0] * 2)


SERVICE = """
import sys, wsgi
for command in sys.argv[1:]:
    result = wsgi.app.test_cli_runner().invoke(args=["mail", *command.split()])
    print(f"$ {command}\\n{result.stdout}{result.stderr}= exit {result.exit_code}")
"""
"""Answers several commands: to load the service takes longer than all of them."""

ON_A_READ_ONLY_DISK = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
READ_ONLY = """$ list
...  waiting   1
1 undelivered
= exit 0
$ show 1
...
Subject: Prueba
...
= exit 0
$ resend
...Error: MAIL_DIR is not writable, so no message could be removed
= exit 1
$ drop --yes 1
1 stays: Read-only file system
0 dropped
= exit 1
$ status
CRITICAL - MAIL_DIR='/mail' takes no message: Read-only file system
= exit 2
"""


@pytest.mark.needs("mount namespaces")
def test_on_a_read_only_disk_messages_are_shown_and_none_is_sent(mail_dir: Path) -> None:
    keep(mail_dir, numbered(1))
    there = ["unshare", "--map-root-user", "--mount", "sh", "-c", ON_A_READ_ONLY_DISK, str(mail_dir)]
    command = [*there, sys.executable, "-c", SERVICE, *re.findall(r"^\$ (.*)", READ_ONLY, re.MULTILINE)]
    with SmtpServer() as server:
        environ = os.environ | server.environ | {"MAIL_DIR": str(mail_dir)}
        result = run(*command, cwd=ROOT, env=environ, timeout=120)

    assert_said(result.stdout.replace(str(mail_dir), "/mail"), READ_ONLY)
    assert server.arrivals == []


def test_to_load_the_service_makes_no_mistyped_directory(mail_dir: Path) -> None:
    create_app(make_settings(mail_dir))

    assert not mail_dir.exists()


def test_a_reader_who_has_seen_enough_ends_a_list_quietly(mail: MailCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click, "echo", Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe")))

    assert mail("list").stderr == ""
