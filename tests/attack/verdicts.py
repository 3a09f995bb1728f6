"""The verdict of each attack, in build/attacks.txt for whoever wants to read them."""

from __future__ import annotations

from tests.server.gunicorn import ROOT

VERDICTS = ROOT / "build" / "attacks.txt"


def verdict(attack: str, outcome: str, *, held: bool) -> None:
    """Note what an attack came to, and fail unless the service held."""
    VERDICTS.parent.mkdir(exist_ok=True)
    with VERDICTS.open("a") as file:
        file.write(f"{'held  ' if held else 'BROKEN'} #{attack}: {outcome}\n")
    assert held, outcome
