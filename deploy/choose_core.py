"""Bind an instance to one core: ``choose_core.py INSTANCE PID``, which the unit runs as root."""

import os
import sys
from pathlib import Path

instance, master = (int(argument) for argument in sys.argv[1:])
cores = sorted(os.sched_getaffinity(0))
core = {cores[instance % len(cores)]}
os.sched_setaffinity(master, core)
for worker in Path(f"/proc/{master}/task/{master}/children").read_text().split():
    for thread in Path(f"/proc/{worker}/task").iterdir():
        os.sched_setaffinity(int(thread.name), core)
