"""A website and the service on one nginx, as docs/deploy.md puts them together."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.site import DEPLOY, OWN_NAME, SERVER_NAME, Site, site
from tests.pages import DEPLOY as PAGE
from tests.waiting import wait_until

WEBSITE = (Path(__file__).parent / "website.conf").read_text()
UNTOUCHED = WEBSITE.replace(PAGE.blocks("Under the name of a website", "nginx")[0], "")
"""The website without what docs/deploy.md adds to its file."""
PAGES = {f"{name}.html": f"<p>{name}\n" * 100 for name in ("index", "400", "404", "413", "50x")}
BESIDE = {"website": WEBSITE}
_OWN = (DEPLOY / "nginx" / "own-name.conf").read_text().replace(SERVER_NAME, OWN_NAME)
_OWN_FILE = re.findall(r"sites-enabled/(zz-[\w.-]+)", PAGE.section("A name of its own beside websites"))[0]
NAMED = {"website": UNTOUCHED.replace(" default_server", ""), _OWN_FILE: _OWN}
"""The service under a name of its own. The website answers for unknown names, because its file comes first."""


def website_log(site: Site) -> str:
    return (site.directory / "log" / "website.log").read_text()


def exchange(site: Site, request: bytes, *, in_clear: bool = False) -> tuple[bytes, str]:
    """All that nginx answers to these bytes, and its line in the website's log, both without the time and the port."""
    before = website_log(site)
    (site.directory / "website" / "pages" / "uploads" / "film").unlink(missing_ok=True)
    with site.open(site.http_port if in_clear else None) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    wait_until(lambda: website_log(site) != before)
    answer = re.sub(rb"^(Date|Expires): .*\n", b"", answer, flags=re.MULTILINE)
    line = re.sub(r"\[.*?\]", "[]", website_log(site).removeprefix(before))
    return answer.replace(str(site.https_port).encode(), b"443"), line


@contextmanager
def website(directory: Path, sites: Mapping[str, str], *instances: str) -> Iterator[Site]:
    """The website with these files in sites-enabled/. Its own files are as old wherever it is."""
    pages = directory / "website" / "pages"
    for folder in ("uploads", "pictures"):
        (pages / folder).mkdir(parents=True)
    for name, text in (PAGES | {"style.css": "p { color: red }\n" * 100}).items():
        (pages / name).write_text(text)
        os.utime(pages / name, (1, 1))
    with site(directory, *instances, sites=sites, changes={"/var/www/website": f"{directory}/website"}) as served:
        yield served
