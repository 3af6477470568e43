"""Figures of this process, by the names that Prometheus' own clients use.

Sources: https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics; ``man 5 proc``.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from vitrify.serve.observe.exposition import Family

_PROC = Path("/proc/self")
_THREADS, _STARTED = 17, 19
"""Places of ``num_threads`` and ``starttime`` behind the command's name in ``stat``."""
_IMPORTED = time.time()


@dataclass(frozen=True)
class Process:
    """What this process takes.

    Attributes:
        started: By ``time.time()``.
        cpu: Seconds, of all threads.
        memory: Resident bytes; where the system does not tell, the most that there ever were.
        files: Open ones; None where the system does not tell.
        threads: Of Python and of libraries; likewise.
    """

    started: float
    cpu: float
    memory: int
    files: int | None = None
    threads: int | None = None

    def families(self) -> tuple[Family, ...]:
        """Return it as figures."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        found = (
            Family("process_start_time_seconds", "gauge", "When the process started, since the epoch.").add(
                round(self.started, 3)
            ),
            Family("process_cpu_seconds", "counter", "Processor time, user and system.").add(self.cpu),
            Family("process_resident_memory_bytes", "gauge", "Memory that is resident.").add(self.memory),
            Family("process_max_fds", "gauge", "File descriptors that there may be.").add(most),
        )
        files, threads = (
            Family("process_open_fds", "gauge", "File descriptors that are open."),
            Family("process_threads", "gauge", "Threads."),
        )
        if self.files is not None and self.threads is not None:
            files.add(self.files)
            threads.add(self.threads)
        return (*found, files, threads)


def process() -> Process:
    """Return what this process takes now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    try:
        fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        pages = int((_PROC / "statm").read_text().split()[1])
        files = len(list((_PROC / "fd").iterdir()))
    except (OSError, ValueError, IndexError):  # another system than Linux
        return Process(_IMPORTED, cpu, used.ru_maxrss)
    started = time.time() - uptime + int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    return Process(started, cpu, pages * os.sysconf("SC_PAGE_SIZE"), files, int(fields[_THREADS]))
