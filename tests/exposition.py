"""The metrics of a running service, as Prometheus reads them."""

import urllib.request
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

PATIENCE = 30


def read(address: str) -> str:
    """The page of metrics at HOST:PORT."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as response:
        page: str = response.read().decode()
    return page


class Samples:
    """The samples of one page."""

    def __init__(self, page: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]

    @classmethod
    def of(cls, address: str) -> "Samples":
        return cls(read(address))

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        for sample in self._samples:
            yield sample.name, sample.labels, sample.value

    def all(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The values of a metric by the values of these labels, those that are 0 left out; others are summed up."""
        values: dict[tuple[str, ...], float] = {}
        for sample_name, given, value in self:
            if sample_name == name and value:
                key = tuple(given[label] for label in labels)
                values[key] = values.get(key, 0) + value
        return values

    def sum(self, name: str, **labels: str) -> float:
        """The sum of all values of a metric that have these labels."""
        return sum(value for sample, given, value in self if sample == name and labels.items() <= given.items())

    def names(self) -> set[str]:
        return {name for name, _, _ in self}
