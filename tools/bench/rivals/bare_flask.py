"""Flask with one view and nothing else."""

import flask

from tools.bench.rivals import DOCUMENT

app = flask.Flask(__name__)


@app.get("/api/v1/health")
def get_health() -> flask.Response:
    """The document."""
    return flask.jsonify(DOCUMENT)
