"""The settings of this service for all that runs under gunicorn beside it."""

worker_class = "gthread"
workers = 1
threads = 32
keepalive = 75
control_socket_disable = True
