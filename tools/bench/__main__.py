"""``python -m tools.bench`` measures everything and writes docs/performance.md."""

import os
import shutil
from contextlib import suppress

from tools.bench import forms, gets, limiter, start
from tools.bench.report import write
from tools.bench.servers import BUILD, LOAD_CORE


def main() -> None:
    """Measure and write the page."""
    # wrk and the mail server inherit the core, so the measured server has the other one to itself.
    os.sched_setaffinity(0, {LOAD_CORE})
    with suppress(PermissionError):
        os.nice(-10)  # so that other processes of the machine disturb less
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    limiter_figures = limiter.measure()  # while there is nothing else in the memory of this process
    get_figures, per_second = gets.measure()
    write(
        [*forms.measure(), *get_figures, *limiter_figures, forms.measure_hanging(), *start.measure()],
        per_second,
    )


if __name__ == "__main__":
    main()
