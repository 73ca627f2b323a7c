"""Counts and times for Prometheus, in a registry of their own: two applications in one process do not mix."""

import contextlib
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
REFUSALS = (400, 401, 403, 408, 413, 422, 503)
CLOSED = ("late", "room")


class Metrics:
    """What one application counts."""

    def __init__(self, rows: Callable[[], float]):
        self.registry = CollectorRegistry()
        name = "shadowmetric"
        self.requests = Counter(
            f"{name}_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.refused = Counter(f"{name}_refused", "Requests refused.", ["status"], registry=self.registry)
        self.stages = Histogram(
            f"{name}_stage_seconds", "Time by stage.", ["stage"], buckets=BUCKETS, registry=self.registry
        )
        self.in_flight = Gauge(f"{name}_requests_in_flight", "Requests not answered yet.", registry=self.registry)
        self.rows = Gauge(f"{name}_index_rows", "Images in the index.", registry=self.registry)
        self.rows.set_function(rows)
        self.connections = Gauge(f"{name}_connections", "Connections that are open.", registry=self.registry)
        self.closed = Counter(
            f"{name}_connections_closed", "Connections closed for a silence, by why.", ["why"], registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        for status in REFUSALS:
            self.refused.labels(str(status))  # zero is told too
        for why in CLOSED:
            self.closed.labels(why)

    @contextlib.contextmanager
    def time_stage(self, stage: str, spent: dict[str, float]) -> Iterator[None]:
        """Measure a stage of one request."""
        begun = time.perf_counter()
        yield
        spent[stage] = time.perf_counter() - begun
        self.stages.labels(stage).observe(spent[stage])

    def count_request(self, method: str, route: str, status: int) -> None:
        """Count a request."""
        self.requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        if status in REFUSALS:
            self.refused.labels(str(status)).inc()

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self.registry)
