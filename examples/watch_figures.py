"""The figures of the service as a Prometheus has seen them, put into words and curves."""  # noqa: INP001 - no package

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from docs.draw_watch import Answer, Band, Curve, Panel, Points, Span, clock

PATIENCE = 60
"""Seconds for a program to start or to answer, and for Prometheus to see what the demo waits for."""

FAILED = 'sum(contact_submissions_total{outcome="failed"})'
REDELIVERED = 'sum(mail_retries_total{outcome="delivered"})'

STEP = 1
"""Seconds between two points of a series, as between two scrapes."""


def request(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Ask a server of this machine; returns status and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, dict(headers or {}))
        with connection.getresponse() as response:
            return response.status, response.read()


class Prometheus:
    """A Prometheus that asks the service every second."""

    def __init__(self, port: int) -> None:
        self._port = port

    def wait_for(self, query: str) -> None:
        """Return once the query has a result, or after PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while not self._ask("query", query=query) and time.monotonic() < deadline:
            time.sleep(STEP / 4)

    def over(self, query: str, begin: float, end: float) -> list[tuple[dict[str, str], Points]]:
        """The points of each series, in seconds since the beginning."""
        found = self._ask("query_range", query=query, start=begin, end=end, step=STEP)
        return [
            (series["metric"], [(at - begin, float(value)) for at, value in series["values"] if value != "NaN"])
            for series in found
        ]

    def _ask(self, kind: str, **parameters: object) -> Any:
        _, answer = request(self._port, "GET", f"/api/v1/{kind}?{urlencode(parameters)}")
        return json.loads(answer)["data"]["result"]


class View:
    """All that Prometheus has seen between two moments."""

    def __init__(self, prometheus: Prometheus, begin: float, end: float) -> None:
        self._prometheus = prometheus
        self._begin = begin
        self._end = end
        self.length = end - begin

    def series(self, query: str) -> list[tuple[dict[str, str], Points]]:
        """The labels of each series, and its points in seconds since the beginning."""
        return self._prometheus.over(query, self._begin, self._end)

    def points(self, query: str) -> Points:
        """The points of the only series; none where there is no series."""
        return next((points for _, points in self.series(query)), [])

    def increase(self, query: str) -> int:
        """The growth of the only series."""
        points = self.points(query)
        return round(points[-1][1] - points[0][1]) if points else 0


def panels(view: View) -> list[Panel]:
    """The figures, those first that say whether a message is lost."""

    def per_second(counter: str) -> Points:
        return view.points(f"sum(rate({counter}[5s]))")

    def forms(outcome: str) -> Points:
        return per_second(f'contact_submissions_total{{outcome="{outcome}"}}')

    def kept(state: str) -> Points:
        return view.points(f'max(mail_messages{{state="{state}"}})')

    def retries(outcome: str) -> Points:
        return view.points(f'sum(mail_retries_total{{outcome="{outcome}"}})')

    def time(share: float, route: str) -> Points:
        buckets = f"sum by (le) (rate(http_request_duration_seconds_bucket{{route{route}}}[10s]))"
        return view.points(f"histogram_quantile({share}, {buckets})")

    form = '=~".*/contact|/contact.php"'
    get = form.replace("=", "!", 1)
    return [
        Panel(
            "Forms per second, by outcome",
            [
                Curve("delivered", "blue", forms("delivered")),
                Curve("refused", "amber", forms("refused")),
                Curve("discarded", "grey", forms("discarded")),
                Curve("failed", "red", forms("failed")),
            ],
            stacked=True,
        ),
        Panel(
            "Messages kept, by state",
            [
                Curve("waiting", "red", kept("waiting")),
                Curve("in doubt", "purple", kept("in_doubt")),
                Curve("refused", "amber", kept("refused")),
                Curve("given up", "grey", kept("given_up")),
            ],
            stacked=True,
        ),
        Panel(
            "Retries so far, by outcome",
            [
                Curve("delivered", "blue", retries("delivered")),
                Curve("waiting", "red", retries("waiting")),
                Curve("in doubt", "purple", retries("in_doubt")),
                Curve("refused", "amber", retries("refused")),
            ],
        ),
        Panel(
            "Time to answer",
            [
                Curve("forms, p99", "red", time(0.99, form)),
                Curve("forms, p50", "red", time(0.5, form), dashed=True),
                Curve("GETs, p99", "blue", time(0.99, get)),
                Curve("GETs, p50", "blue", time(0.5, get), dashed=True),
            ],
            seconds=True,
        ),
        Panel(
            "Requests per second, by status",
            [
                Curve("200", "blue", per_second('http_requests_total{status="200"}')),
                Curve("404", "grey", per_second('http_requests_total{status="404"}')),
                Curve("400, 429", "amber", per_second('http_requests_total{status=~"400|429"}')),
                Curve("500", "red", per_second('http_requests_total{status="500"}')),
            ],
            stacked=True,
        ),
        Panel(
            "Forms at the mail server, at once",
            [
                Curve("in use", "blue", view.points("sum(mail_places_in_use)")),
                Curve("places", "grey", view.points("sum(mail_places)"), dashed=True),
                Curve("waiting", "amber", view.points("sum(mail_waiting_room_in_use)")),
            ],
        ),
        Panel(
            "Memory of the worker, MB",
            [Curve("resident", "blue", view.points("sum(process_resident_memory_bytes) / 1e6"))],
        ),
    ]


def bands(view: View) -> list[Band]:
    """The mail check, and each alert that was not silent."""
    failing = _spans(view.points('min(mail_check_success{check="server"}) == 0'), "firing")
    passing = _spans(view.points('min(mail_check_success{check="server"}) == 1'), "ok")
    found = [Band("Mail check", _words("fails", failing), [*passing, *failing])]
    states: dict[str, dict[str, set[float]]] = {}
    for labels, points in view.series("ALERTS"):
        name = labels["alertname"].removeprefix("PublicWebInterface")
        states.setdefault(name, {}).setdefault(labels["alertstate"], set()).update(at for at, _ in points)
    for name, seconds in states.items():
        firing = seconds.get("firing", set())
        fires = _spans([(second, 1) for second in sorted(firing)], "firing")
        pends = _spans([(second, 1) for second in sorted(seconds.get("pending", set()) - firing)], "pending")
        words = _words("fires", fires) if fires else "only pending"
        found.append(Band(f"Alert {name}", words, [*pends, *fires]))
    return sorted(found, key=lambda band: "pending" in band.words)


def _spans(points: Points, kind: str) -> list[Span]:
    """The times without a gap. A point stands for the second that follows it."""
    spans: list[Span] = []
    for at, _ in points:
        if spans and at - spans[-1].end < STEP / 2:
            spans[-1] = replace(spans[-1], end=at + STEP)
        else:
            spans.append(Span(at, at + STEP, kind))
    return spans


def _words(verb: str, spans: Sequence[Span]) -> str:
    return f"{verb} {clock(spans[0].begin)} to {clock(spans[-1].end)}" if spans else ""


def answers(view: View, seconds: float) -> list[Answer]:
    """The questions of whoever is woken, with the answers of the figures; ``seconds`` is the length of the outage."""
    failed = view.increase(FAILED)
    delivered = view.increase(REDELIVERED)
    troubles = [
        *view.points("min(mail_check_success) == 0"),
        *view.points('sum(ALERTS{alertstate="firing"})'),
    ]
    last = max((at for at, _ in troubles), default=0) + STEP
    waiting = failed - delivered
    over = last < view.length
    return [
        Answer("What happened?", f"No mail server for {seconds:.0f} s: {failed} forms were not delivered.", good=False),
        Answer(
            "Was a message lost?",
            f"No. All {failed} were kept and are delivered now."
            if waiting == 0
            else f"{delivered} of {failed} are delivered now, {waiting} not yet.",
            good=waiting == 0,
        ),
        Answer(
            "Is it over?",
            f"Yes, since {clock(last)}: the mail check passes, no alert fires." if over else "No.",
            good=over,
        ),
    ]
