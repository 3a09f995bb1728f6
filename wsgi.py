"""The WSGI application, for gunicorn and for the flask command."""

from app import create_app

app = create_app()
