"""The project's configuration of gunicorn in a service that looks after its mail all the time.

RETRY_SECONDS takes the place of all pauses between the attempts for one message.
"""

import os
import runpy

from app.mail import health, queued, redelivery

health.CHECK_INTERVAL = 0.2
redelivery.INTERVAL = 0.1
redelivery.READING_SHARE = 1
redelivery.GAP = redelivery.LONGEST_GAP = 0.01
queued.SHORTEST_PAUSE = queued.LONGEST_PAUSE = int(os.environ["RETRY_SECONDS"])

globals().update(runpy.run_path("gunicorn.conf.py"))
