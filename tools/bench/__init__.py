"""The benchmark for docs/performance.md: this service and others, in one run on one machine."""
