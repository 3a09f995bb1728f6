"""Each alert fires at its shipped time and not before, says what to do, and resolves; what is shared counts once."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.site import unit_environment
from tests.monitoring.rules import (
    ALERTS,
    CONFIGURATION,
    JOB,
    MACHINE,
    RULES,
    STEP,
    Samples,
    Series,
    at,
    both,
    counter,
    firing,
    never_firing,
    promtool,
    shown,
    try_rules,
)
from tests.versions import CONTACT

PREFIX = "PublicWebInterface"
"""The names of all alerts begin so."""
SHARED = {"job": JOB, "machine": MACHINE}
MINUTE = 60 // STEP
"""Samples of a minute."""
UP = both("up", [1] * 60 * MINUTE)


OK = 'http_requests_total{method="GET", route="/api", status="200", code="-"}'
ERROR = 'http_requests_total{method="GET", route="/api", status="500", code="internal_error"}'
FAILED, DELIVERED = (
    f'contact_submissions_total{{form_type="demo", outcome="{outcome}"}}' for outcome in ("failed", "delivered")
)
SERVER, STORAGE = (f'mail_check_success{{check="{check}"}}' for check in ("server", "storage"))
REDIS = 'rate_limit_storage_reachable{storage="redis"}'
AGE = 'mail_oldest_message_age_seconds{state="waiting"}'


def fault(name: str, good: float, bad: float, minutes: int) -> Series:
    """Both instances show the same: good for a minute, bad for so many minutes, and good again."""
    return UP | both(name, [good] * MINUTE + [bad] * minutes * MINUTE + [good] * 10 * MINUTE)


def failing_route() -> Series:
    """After ten minutes a route fails for ten minutes; the counter of its errors exists only from then on."""
    errors: Samples = [*["_"] * 10 * MINUTE, *[50 + 10 * step for step in range(10 * MINUTE)], *[440] * 10 * MINUTE]
    return UP | {at(0, OK): counter((10, 40 * MINUTE)), at(0, ERROR): errors}


def durations(route: str, below: str, above: str, each: float, *, slow: int = 15 * MINUTE) -> Series:
    """Requests to a route. After 15 minutes so many samples in a row have slow ones alone, between the two bounds."""
    name = 'http_request_duration_seconds_bucket{{route="{}", le="{}"}}'
    every = counter((each, 60 * MINUTE))
    fast = counter((each, 15 * MINUTE), (0, slow), (each, 45 * MINUTE - slow))
    return UP | {
        at(0, name.format(route, below)): fast,
        at(0, name.format(route, above)): every,
        at(0, name.format(route, "+Inf")): every,
    }


def failing_forms() -> Series:
    """One form in five minutes, as at night. All of the first half hour fail, and nobody sends any later."""
    failed = [float(step // (5 * MINUTE)) for step in range(30 * MINUTE)]
    return UP | {at(0, FAILED): failed + failed[-1:] * 60 * MINUTE, at(0, DELIVERED): [0] * 90 * MINUTE}


NO_ANSWER = both("up", [1] * MINUTE + [0] * 3 * MINUTE + [1] * MINUTE)
ONE_DOWN: Series = {at(0, "up"): [1] * 20 * MINUTE, at(1, "up"): [1] * MINUTE + [0] * 7 * MINUTE + [1] * MINUTE}
NOT_WATCHED: Series = {at(0, "up"): [1] * MINUTE + ["stale"] + ["_"] * 7 * MINUTE + [1] * MINUTE}
WAITING = UP | both(AGE, [0.0] * MINUTE + [float(STEP * step) for step in range(20 * MINUTE)] + [0.0] * MINUTE)
LOST = UP | {at(0, "mail_messages_lost_total"): [0] * 2 * MINUTE + [1] * 30 * MINUTE}
LEFT_OUT = UP | {
    at(n, "mail_recipients_refused_total"): counter((0, 8 + n), (1, 1), (0, 1500 * MINUTE)) for n in (0, 1)
}
SLOW, SLOW_FORM = durations("/api", "0.25", "0.5", each=10), durations(CONTACT, "5", "10", each=1)

Way = tuple[Series, int, int, dict[str, str], str]
WAYS: dict[str, Way] = {
    "NoAnswer": (NO_ANSWER, 120, 240, SHARED, "No process of the public web interface on web1 answers."),
    "ProcessDown": (
        *(ONE_DOWN, 360, 480, SHARED | {"instance": "127.0.0.1:19101"}),
        "One process of the public web interface on web1 does not answer (127.0.0.1:19101).",
    ),
    "NotWatched": (NOT_WATCHED, 360, 495, {"job": JOB}, "Prometheus scrapes no process of the public web interface."),
    "Errors": (failing_route(), 900, 1470, SHARED | {"route": "/api"}, "50% of the requests to /api on web1 fail."),
    "FormsFail": (failing_forms(), 900, 4500, SHARED, "Most forms of the last hour on web1 have failed."),
    "MailServerFails": (
        *(fault(SERVER, 1, 0, 7), 360, 480, SHARED | {"check": "server"}),
        "The mail server accepts no messages from web1.",
    ),
    "MailDirFails": (
        *(fault(STORAGE, 1, 0, 7), 360, 480, SHARED | {"check": "storage"}),
        "No messages can be stored in MAIL_DIR on web1.",
    ),
    "MessagesWait": (WAITING, 975, 1260, SHARED | {"state": "waiting"}, "A message has waited on web1 for 15m 15s."),
    "MessagesLost": (LOST, 120, 1020, SHARED, "Messages lost on web1: 1."),
    "MessagesNeedAHand": (
        *(fault('mail_messages{state="in_doubt"}', 0, 2, 3), 120, 240, SHARED | {"state": "in_doubt"}),
        "Messages on web1 that are in doubt: 2.",
    ),
    "RecipientRefused": (LEFT_OUT, 135, 86_550, SHARED, "Copies of messages from web1 that were refused in a day: 1."),
    "LimitsNotShared": (
        *(fault(REDIS, 1, 0, 7), 360, 480, SHARED | {"storage": "redis"}),
        "The storage of the rate limits is unreachable from web1.",
    ),
    "Slow": (
        *(SLOW, 1515, 2400, SHARED | {"kind": "other"}),
        "One of a hundred requests on web1 takes 497.5ms or longer.",
    ),
    "FormSlow": (
        SLOW_FORM,
        1515,
        2400,
        SHARED | {"kind": "form"},
        "One of a hundred forms on web1 takes 9.95s or longer.",
    ),
}
"""What happens, the seconds at which an alert fires and has resolved, and its labels and words as it fires."""


def test_promtool_takes_the_configuration_and_the_rules() -> None:
    configured = promtool("check", "config", CONFIGURATION)
    linted = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)

    assert (configured.returncode, configured.stderr) == (0, "")
    assert "1 rule files found" in configured.stdout
    assert (linted.returncode, linted.stderr) == (0, "")


def test_every_alert_is_tried() -> None:
    assert {PREFIX + name for name in WAYS} == set(ALERTS)


@pytest.mark.parametrize(("name", "way"), WAYS.items(), ids=WAYS)
def test_an_alert_fires_at_its_time_and_not_before_and_resolves(tmp_path: Path, name: str, way: Way) -> None:
    series, fires, resolved, labels, summary = way
    alert = PREFIX + name
    times = {fires - STEP: 0, resolved - STEP: 1, resolved: 0}

    counts = [firing(alert, second, number) for second, number in times.items()]
    try_rules(tmp_path, series, *counts, alert=shown(alert, fires, labels, summary))


FAILING: Samples = [*[1] * MINUTE, *[0] * 20 * MINUTE]
GONE: Samples = ["stale", *["_"] * 2 * MINUTE]
"""A process that has died and whose place another one takes two minutes later."""


def restart(name: str, good: float, bad: float) -> Series:
    """The only process restarts after eleven minutes, ten of them bad."""
    return UP | {at(0, name): [*[good] * MINUTE, *[bad] * 10 * MINUTE, *GONE, *[bad] * 10 * MINUTE]}


def messages(state: str) -> Series:
    return UP | both(f'mail_messages{{state="{state}"}}', [0] * MINUTE + [1] * 20 * MINUTE)


ON_THREE_MACHINES: Series = {
    name.replace(MACHINE, machine): samples
    for machine, sampled in {"web1": FAILING, "web2": FAILING, "web3": [1] * 20 * MINUTE}.items()
    for name, samples in both(SERVER, sampled).items()
}
THROUGH_A_RESTART = {645: 1, 675: 1, 765: 1, 1185: 1}
COUNTED: dict[str, tuple[str, Series, dict[int, int]]] = {
    "the only process restarts while the time runs": (
        *("MailServerFails", UP | {at(0, SERVER): [*FAILING[:12], *GONE, *FAILING[MINUTE:]]}),
        {345: 0, 360: 1, 600: 1, 1200: 1},
    ),
    "one process alone finds a fault": (
        *("MailServerFails", UP | {at(0, SERVER): FAILING, at(1, SERVER): [1] * 20 * MINUTE}),
        {345: 0, 360: 1, 600: 1},
    ),
    "a process dies with a fault that the other sees no more": (
        "MailServerFails",
        UP
        | {
            at(0, SERVER): [*FAILING[: 8 * MINUTE], *[1] * 9 * MINUTE],
            at(1, SERVER): [*FAILING[: 7 * MINUTE], "stale"],
        },
        {465: 1, 480: 0},
    ),
    "all processes die": (
        *("MailServerFails", both(SERVER, [*[0] * 10 * MINUTE, "stale"])),
        {585 + 3600: 1, 600 + 3600: 0},
    ),
    "two machines of three": ("MailServerFails", ON_THREE_MACHINES, {600: 2}),
    "a restart while messages wait": ("MessagesWait", restart(AGE, 0, 3600), THROUGH_A_RESTART),
    "a restart while one needs a hand": (
        *("MessagesNeedAHand", restart('mail_messages{state="refused"}', 0, 1)),
        THROUGH_A_RESTART,
    ),
    "a restart while limits are not shared": ("LimitsNotShared", restart(REDIS, 1, 0), THROUGH_A_RESTART),
    "a message given up": ("MessagesNeedAHand", messages("given_up"), {600: 1}),
    "a message that waits": ("MessagesNeedAHand", messages("waiting"), {600: 0}),
}
"""What happens, and how many of these alerts fire at these seconds."""


@pytest.mark.parametrize(("alert", "series", "counts"), COUNTED.values(), ids=COUNTED)
def test_what_processes_share_is_one_alert_of_a_machine_and_ends_with_no_process(
    tmp_path: Path, alert: str, series: Series, counts: dict[int, int]
) -> None:
    try_rules(tmp_path, series, *(firing(PREFIX + alert, second, number) for second, number in counts.items()))


HOUR = 60 * MINUTE
MANY = {at(0, OK): counter((10, HOUR))}


def errors(*increases: tuple[float, int]) -> Series:
    return {at(0, ERROR): counter(*increases)}


def forms(failed: float, delivered: float) -> Series:
    return {at(0, FAILED): counter((failed, HOUR)), at(0, DELIVERED): counter((delivered, HOUR))}


STORED, MEMORY = 'mail_oldest_message_age_seconds{state="stored"}', 'rate_limit_storage_reachable{storage="memory"}'
HARMLESS: dict[str, tuple[str, Series]] = {
    "a restart": ("NoAnswer", both("up", [*[1] * MINUTE, 0, 0, *[1] * 20 * MINUTE])),
    "a form that fails among many": ("FormsFail", forms(0.05, 0.06)),
    "few requests, all of which fail": ("Errors", errors((0.9, HOUR))),
    "few errors among many requests": ("Errors", MANY | errors((0.5, HOUR))),
    "a minute of errors": ("Errors", MANY | errors((0, 10 * MINUTE), (10, 1), (0, 49 * MINUTE))),
    "requests that are refused": ("Errors", {at(0, OK.replace("200", "429")): counter((10, HOUR))}),
    "another service on the same Prometheus": (
        "Errors",
        {name.replace(JOB, "other"): samples for name, samples in errors((10, HOUR)).items()},
    ),
    "one slow request": ("Slow", durations("/api", "0.25", "0.5", 10, slow=1)),
    "slow requests, but few": ("Slow", durations("/api", "0.25", "0.5", 2)),
    "slow forms, but few": ("FormSlow", durations("/contact.php", "5", "10", 0.4)),
    "forms that wait for the mail server": ("Slow", durations(CONTACT, "2.5", "5", 10)),
    "a message that is stored": ("MessagesWait", both(STORED, [90_000] * 10 * MINUTE)),
    "limits in the process": ("LimitsNotShared", both(MEMORY, [1] * 20 * MINUTE)),
}


@pytest.mark.parametrize(("alert", "series"), HARMLESS.values(), ids=HARMLESS)
def test_what_needs_nobody_is_no_alert(tmp_path: Path, alert: str, series: Series) -> None:
    try_rules(tmp_path, UP | series, never_firing(PREFIX + alert))


@pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)
def test_an_alert_says_how_urgent_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    """The other labels and annotations are in WAYS."""
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert re.search(r"`[^`]+`|\bdocs/\S+\.md", alert["annotations"]["description"])


def test_the_job_asks_the_processes_where_the_unit_puts_their_metrics() -> None:
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    (job,) = configuration["scrape_configs"]
    (machine,) = job["static_configs"]

    assert job["job_name"] == JOB
    assert machine["targets"] == [unit_environment(instance)["METRICS_BIND"] for instance in ("0", "1")]
    assert set(machine["labels"]) == {"machine"}
    assert configuration["global"] == {"scrape_interval": f"{STEP}s", "evaluation_interval": f"{STEP}s"}
