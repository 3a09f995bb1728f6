"""The WSGI application that gunicorn and the flask command load."""

from app import create_app

app = create_app()
