"""What clients count, for Prometheus: `pip install holdfast[prometheus]`.

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
    "waited_seconds": "How long these waited",
    "refused": "Acquires that did not get the lock: busy, timed out, cancelled",
    "unknown": "Acquires whose answer was lost",
    "released": "Holds released by a call",
    "lost": "Holds lost before",
    "renewed": "Renewals in the background",
}


class Collector(_Collector):
    """Client.stats() of one client or more, as holdfast_held, holdfast_acquired_total and so on.

    The label `client` is the name that each was given; one that is closed is left out. Reading
    asks no server.
    """

    def __init__(self, **clients: holdfast.Client) -> None:
        """Take the clients, each by a name."""
        self._clients = clients

    def describe(self) -> list[Metric]:
        """Give the names, so that two collectors in one registry are refused."""
        return list(self._metrics({}))

    def collect(self) -> Iterator[Metric]:
        """Count now."""
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
