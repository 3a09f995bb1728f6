"""Writes and lays out what the code knows: ``make docs`` and ``make format``."""
