"""The pages of the project, as the tests read what they show."""

import re
from dataclasses import dataclass

from tests.server.gunicorn import ROOT


@dataclass(frozen=True)
class Page:
    """A page in Markdown."""

    text: str

    def section(self, heading: str) -> str:
        """The text under a heading, up to the next one."""
        return self.text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]

    def blocks(self, heading: str, language: str) -> list[str]:
        """The blocks of code in that language under that heading."""
        return re.findall(rf"^```{language}\n(.*?)^```", self.section(heading), re.MULTILINE | re.DOTALL)


README, DEPLOY, MAIL, CONTAINER = (
    Page((ROOT / name).read_text()) for name in ("README.md", "docs/deploy.md", "docs/mail.md", "docs/container.md")
)
