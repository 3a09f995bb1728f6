"""The benchmark behind docs/performance.md: this service beside others, in one run on one machine."""
