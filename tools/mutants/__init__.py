"""Mutants of app/: each breaks one behaviour on purpose, and some test has to notice it. No part of the service."""
