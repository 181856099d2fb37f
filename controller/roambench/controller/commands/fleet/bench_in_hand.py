"""The lease that a `fleet` command takes before it disturbs boards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from roambench.provision.bench import Bench
from roambench.provision.leases.holding import holding


@contextmanager
def in_hand(bench: Bench, purpose: str, wait_s: float, *, during_run: bool) -> Iterator[None]:
    """Hold the bench for the body, or with `during_run` do without; FleetError says who has it."""
    if during_run:
        yield
        return
    with holding(bench, f"fleet {purpose}", wait_s, lambda line: print(line, file=sys.stderr)):
        yield
