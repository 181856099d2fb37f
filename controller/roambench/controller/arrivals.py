"""Progress of a bench's hosts while a run waits for all of them: a live table, or a few lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from roambench.controller.agent_bench import Watch
from roambench.provision.bench import Host


@contextmanager
def arrivals(console: Console, watch: Watch, hosts: tuple[Host, ...]) -> Iterator[Callable[[], None]]:
    """Yields what draws the present state; without a terminal a line tells when a host comes."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda: live.update(_table(watch, hosts))
        return
    told: set[str] = set()

    def show() -> None:
        for host in hosts:
            if host.name in watch.ready and host.name not in told:
                told.add(host.name)
                waited_s = time.monotonic() - watch.started_s
                console.print(f"{host.name} is ready after {waited_s:.1f} s", highlight=False)

    yield show


def _table(watch: Watch, hosts: tuple[Host, ...]) -> Table:
    table = Table("slot", "host", "address", "state", "hello after")
    for host in hosts:
        hello_s = watch.hello_s.get(host.name)
        came = "" if hello_s is None else f"{hello_s:.1f} s"
        # What an agent says of itself may hold brackets.
        table.add_row(str(host.slot), host.name, host.address, escape(state_of(watch, host.name)), came)
    return table


def state_of(watch: Watch, name: str) -> str:
    """In a word or two, for the table."""
    if name in watch.ready:
        return "ready"
    if name in watch.not_ready:
        return f"cannot train: {watch.not_ready[name]}"
    if name in watch.fetching:
        return "fetching its data"
    if name in watch.hello_s:
        return "warming up"
    return watch.refused.get(name, "not here yet")
