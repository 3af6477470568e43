"""Figures of one server process, in the text format of Prometheus.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4).
"""

from __future__ import annotations

import time
from bisect import bisect_left
from threading import Lock

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds, upper bounds of the histogram's buckets."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests. Labels are names of our own and statuses, so that nobody makes them grow."""

    def __init__(self) -> None:
        """Count from zero."""
        self._lock = Lock()
        self._since = time.time()
        self._requests: dict[tuple[str, int], int] = {}
        self._durations: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._received = self._sent = self._in_flight = 0

    def begin(self) -> None:
        """Count a request that is being answered."""
        with self._lock:
            self._in_flight += 1

    def end(self, operation: str, status: int, seconds: float, received: int, sent: int) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._in_flight -= 1
            self._requests[operation, status] = self._requests.get((operation, status), 0) + 1
            buckets = self._durations.setdefault(operation, [0] * (len(BOUNDS) + 1))
            buckets[bisect_left(BOUNDS, seconds)] += 1
            self._seconds[operation] = self._seconds.get(operation, 0.0) + seconds
            self._received += received
            self._sent += sent

    def text(self) -> str:
        """Return all figures."""
        with self._lock:
            lines = [
                *_head("vitrify_requests_total", "counter", "Requests answered."),
                *(
                    f'vitrify_requests_total{{operation="{operation}",status="{status}"}} {count}'
                    for (operation, status), count in sorted(self._requests.items())
                ),
                *_head("vitrify_request_seconds", "histogram", "Time from a request's head to the end of its answer."),
                *(line for operation in sorted(self._durations) for line in self._histogram(operation)),
            ]
            for name, kind, what, value in (
                ("vitrify_requests_in_flight", "gauge", "Requests being answered.", self._in_flight),
                ("vitrify_received_bytes_total", "counter", "Bytes of bodies that came.", self._received),
                ("vitrify_sent_bytes_total", "counter", "Bytes of bodies that were sent.", self._sent),
                ("process_start_time_seconds", "gauge", "When the server started.", round(self._since, 3)),
            ):
                lines += [*_head(name, kind, what), f"{name} {value}"]
        return "\n".join([*lines, ""])

    def _histogram(self, operation: str) -> list[str]:
        name, label = "vitrify_request_seconds", f'operation="{operation}"'
        lines, count = [], 0
        for bound, added in zip((*map(str, BOUNDS), "+Inf"), self._durations[operation], strict=True):
            count += added
            lines.append(f'{name}_bucket{{{label},le="{bound}"}} {count}')
        return [*lines, f"{name}_sum{{{label}}} {self._seconds[operation]:.6f}", f"{name}_count{{{label}}} {count}"]


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
