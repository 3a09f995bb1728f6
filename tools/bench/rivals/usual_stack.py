"""The stack of most tutorials: one extension per need. The moving window is as exact as the limits of this service."""

import flask
from flask_cors import CORS
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from werkzeug.middleware.proxy_fix import ProxyFix

from tools.bench.rivals import DOCUMENT

app = flask.Flask(__name__)
app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1)  # type: ignore[method-assign]  # as documented
CORS(app)
Limiter(
    get_remote_address,
    app=app,
    default_limits=["60 per minute"],
    headers_enabled=True,
    storage_uri="memory://",
    strategy="moving-window",
)


@app.get("/api/v1/health")
def get_health() -> flask.Response:
    """The document."""
    return flask.jsonify(DOCUMENT)
