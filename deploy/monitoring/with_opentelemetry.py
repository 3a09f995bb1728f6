"""The service with OpenTelemetry, which receives a request's route and status, but nothing that a visitor wrote."""

import os
from collections.abc import Sequence
from typing import cast

from flask import Response
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from app.api.request import request
from wsgi import app

if "SENTRY_DSN" in os.environ:
    import with_sentry  # noqa: F401

TOLD = ("http.method", "http.route", "http.status_code", "request_id")


def wordless(span: ReadableSpan) -> ReadableSpan:
    """The span, reduced to the data named here."""
    events = [
        Event(event.name, {"exception.type": event.attributes["exception.type"]}, event.timestamp)
        for event in span.events
        if event.name == "exception" and event.attributes
    ]
    told = {name: value for name, value in (span.attributes or {}).items() if name in TOLD}
    return ReadableSpan(
        name=f"{told.get('http.method', '-')} {told.get('http.route', '-')}",
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=told,
        events=events,
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=trace.Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
    )


class WordlessExporter(OTLPSpanExporter):
    """Exports each span as reduced by ``wordless``."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans over HTTP."""
        return super().export([wordless(span) for span in spans])


@app.after_request
def name_the_request(response: Response) -> Response:
    """Add the request's id, which both logs contain, to the span."""
    trace.get_current_span().set_attribute("request_id", request.id)
    return response


cast("TracerProvider", trace.get_tracer_provider()).add_span_processor(BatchSpanProcessor(WordlessExporter()))
