"""Clients' counts for Prometheus: `pip install holdfast-lock[prometheus]`.

prometheus_client.REGISTRY.register(holdfast.prometheus.Collector(main=client))
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

try:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector as _Collector
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.prometheus needs prometheus-client, which comes with holdfast-lock[prometheus]",
        name=missing.name,
    ) from missing

import holdfast

from ._stats import buckets, shown

_GAUGES = {
    "held": "Holds that may still be on the server",
    "waiting": "Acquires in a queue",
}
_COUNTERS = {
    "acquired": "Acquires that got the lock",
    "queued": "Acquires that got the lock after they had a place in its queue",
    "released": "Holds that a call released",
    "kept": "Holds that keep the lock after their work",
    "begun": "Calls that were made at most once, and whose record was written",
    "renewed": "Renewals in the background",
    "alarms": "How often the alarm was raised: many acquires of one lock timed out",
}
_BY_LABEL = {
    "answered": ("outcome", "Acquires of once() that got the outcome of another call"),
    "refused": (
        "cause",
        "Acquires that did not get the lock, because of others or of their caller",
    ),
    "failed": ("cause", "Acquires that failed without learning the state of the lock"),
    "lost": ("cause", "Holds that were lost before a call released them"),
    "finished": ("outcome", "Calls made for once() that ended"),
}
_HISTOGRAMS = {
    "wait": "For how long acquires that got the lock had waited for it",
    "hold": "For how long locks were held, until a call ended the hold or it was lost",
}
_OF_CLIENTS = {
    "connections": "Connections that were opened",
    "reconnects": "Connections that were opened in place of one that broke",
    "unconfirmed": "Releases that did not wait for their answer, which was not as expected",
}


class Collector(_Collector):
    """Client.stats() of one or more clients; docs/operations/metrics.md lists the metrics.

    The label `client` is each client's keyword here. The label `lock` is the name, if it is counted
    separately, and otherwise empty, so that a sum over all is the client's. Closed clients are left
    out. Reading sends nothing.
    """

    def __init__(self, **clients: holdfast.Client) -> None:
        """Take the clients, each by a name."""
        self._clients = clients

    def describe(self) -> list[Metric]:
        """Return the names, so that a registry refuses a second collector."""
        return list(self._metrics({}))

    def collect(self) -> Iterator[Metric]:
        """Read the counts now."""
        told: dict[str, holdfast.Stats] = {}
        for name, client in self._clients.items():
            with contextlib.suppress(holdfast.ClosedError):
                told[name] = client.stats()
        return self._metrics(told)

    def _metrics(self, told: Mapping[str, holdfast.Stats]) -> Iterator[Metric]:
        rows = [row for client, stats in told.items() for row in _rows(client, stats)]
        for family, fields in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for field, what in fields.items():
                metric = family(f"holdfast_{field}", what, labels=["client", "lock"])
                for labels, counts in rows:
                    metric.add_metric(labels, getattr(counts, field))
                yield metric
        for field, (label, what) in _BY_LABEL.items():
            metric = CounterMetricFamily(
                f"holdfast_{field}", what, labels=["client", "lock", label]
            )
            for labels, counts in rows:
                for value, count in getattr(counts, field).items():
                    metric.add_metric([*labels, value], count)
            yield metric
        for field, what in _HISTOGRAMS.items():
            times = HistogramMetricFamily(
                f"holdfast_{field}_seconds", what, labels=["client", "lock"]
            )
            for labels, counts in rows:
                histogram: holdfast.Histogram = getattr(counts, field)
                times.add_metric(labels, buckets(histogram), histogram.sum)
            yield times
        for field, what in _OF_CLIENTS.items():
            metric = CounterMetricFamily(f"holdfast_{field}", what, labels=["client"])
            for client, stats in told.items():
                metric.add_metric([client], getattr(stats, field))
            yield metric


def _rows(client: str, stats: holdfast.Stats) -> Iterator[tuple[list[str], holdfast.Counts]]:
    """Return the labels and the counts of each name, and of all others."""
    yield [client, ""], stats.others
    for name, counts in stats.names.items():
        yield [client, shown(name)], counts
