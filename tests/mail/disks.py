"""A MAIL_DIR on disks that a test cannot have otherwise: each in a mount namespace of its own, for root and users."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.mail import command as command_line

FOLDERS = 'mkdir -p "$0/tmp" "$0/new" "$0/cur" && chmod 700 "$0"'
TMPFS = f'mount -t tmpfs -o size=128k tmpfs "$0" && {FOLDERS}'
FILL = '! head -c 1M /dev/zero 2>/dev/null > "$0/filler"'
FULL = f"{TMPFS} && {FILL}"
READ_ONLY = f'{FOLDERS} && mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'


def run(disk: str, directory: Path, command: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a command while MAIL_DIR, the directory's ``mail``, is such a disk."""
    mail_dir = directory / "mail"
    mail_dir.mkdir(exist_ok=True)
    there = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{disk} && exec "$@"', str(mail_dir)]
    return command_line.run([*there, *command], mail_dir, environ)
