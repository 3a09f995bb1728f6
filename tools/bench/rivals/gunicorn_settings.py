"""The settings of the rivals under gunicorn: the same as this service's."""

worker_class = "gthread"
workers = 1
threads = 32
keepalive = 0
control_socket_disable = True
