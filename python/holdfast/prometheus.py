"""Clients' counts for Prometheus: `pip install holdfast[prometheus]`.

prometheus_client.REGISTRY.register(holdfast.prometheus.Collector(main=client))
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as _Collector

import holdfast

_GAUGES = {
    "held": "Holds that may still be on the server",
    "waiting": "Acquires in a queue",
}
_COUNTERS = {
    "acquired": "Acquires that got the lock",
    "waited": "Acquires that got the lock after they waited in a queue",
    "waited_seconds": "The sum of the waits of these acquires",
    "refused": "Acquires that did not get the lock: busy, timed out, cancelled",
    "unknown": "Acquires whose answer was lost",
    "released": "Holds that a call released",
    "lost": "Holds that were lost before a call released them",
    "renewed": "Renewals in the background",
}


class Collector(_Collector):
    """Client.stats() of one or more clients, as holdfast_held, holdfast_acquired_total and so on.

    The label `client` is each client's keyword here. Closed clients are left out. Reading sends
    nothing.
    """

    def __init__(self, **clients: holdfast.Client) -> None:
        """Take the clients, each by a name."""
        self._clients = clients

    def describe(self) -> list[Metric]:
        """Give the names, so that a registry refuses a second collector."""
        return list(self._metrics({}))

    def collect(self) -> Iterator[Metric]:
        """Read the counts now."""
        told: dict[str, holdfast.Stats] = {}
        for name, client in self._clients.items():
            with contextlib.suppress(holdfast.ClosedError):
                told[name] = client.stats()
        return self._metrics(told)

    def _metrics(self, told: dict[str, holdfast.Stats]) -> Iterator[Metric]:
        for family, fields in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for field, what in fields.items():
                metric = family(f"holdfast_{field}", what, labels=["client"])
                for name, stats in told.items():
                    metric.add_metric([name], getattr(stats, field))
                yield metric
