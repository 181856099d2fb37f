"""The lease that a `fleet` command takes before it disturbs boards."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from roambench.provision.bench import Bench, Host
from roambench.provision.leases.holding import HeldLease, holding
from roambench.runner.screen import progress_screen, say


class InHand:
    """The boards that a command keeps: the others of its bench are free for who does without these."""

    def __init__(self, bench: Bench, hosts: Sequence[Host], held: HeldLease | None) -> None:
        self._held = held
        self._kept = [host.name for host in hosts]
        self._lock = threading.Lock()
        if held is not None and len(hosts) < len(bench.hosts):
            held.keep(self._kept)

    def done(self, host: Host) -> None:
        """The command does nothing to this one any more; from any thread."""
        with self._lock:
            if host.name in self._kept:
                self._kept.remove(host.name)
                if self._held is not None:
                    self._held.keep(self._kept)


@contextmanager
def in_hand(
    bench: Bench, purpose: str, wait_s: float, *, hosts: Sequence[Host], during_run: bool
) -> Iterator[InHand]:
    """Hold `hosts` for the body, once the bench and all of them are free; with `during_run` do without.
    FleetError says who has it."""
    if during_run:
        yield InHand(bench, hosts, None)
        return
    names = [host.name for host in hosts]
    report = partial(say, progress_screen(stderr=True))
    with holding(bench, f"fleet {purpose}", report, wait_s, boards=names) as held:
        yield InHand(bench, hosts, held)
