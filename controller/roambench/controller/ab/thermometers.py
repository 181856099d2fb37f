"""Where a fleet's temperatures can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from roambench.controller.ab.cooling import Thermometer
from roambench.controller.places.table import fleet_of
from roambench.provision.bench import Bench, Host
from roambench.provision.hosts import HostLink, on_hosts
from roambench.provision.inventory import load_bench

#: As the drivers of processors call themselves: a Pi's, Intel's, AMD's.
_PROCESSORS: Final = ("cpu_thermal", "cpu-thermal", "coretemp", "k10temp", "zenpower")
_READ: Final = (
    "for zone in /sys/class/thermal/thermal_zone*; do "
    'case "$(cat $zone/type)" in cpu-thermal|cpu_thermal) cat $zone/temp;; esac; done'
)


def thermometer_of(fleet: str, only: Sequence[str] = ()) -> Thermometer | None:
    """None for a fleet whose energy nobody measures: it need not cool."""
    kind, file = fleet_of(fleet)
    if kind.has_file:
        bench = load_bench(Path(file))
        hosts = bench.only(only)
        return lambda: bench_temperatures(bench, hosts)
    return this_machine if kind.has_agents else None


def this_machine() -> Mapping[str, float]:
    """The warmest core of this machine; empty in a container that shows none."""
    try:
        sensors = psutil.sensors_temperatures()
    except (AttributeError, OSError, ValueError):  # a system that has no such thing, or a broken sensor
        return {}
    cores = [entry.current for name in _PROCESSORS for entry in sensors.get(name, ()) if entry.current]
    return {"this machine": max(cores)} if cores else {}


def bench_temperatures(bench: Bench, hosts: Sequence[Host]) -> dict[str, float]:
    """Of every host that tells; asked with as little work for it as there is."""

    def ask(link: HostLink) -> float | None:
        said = link.run(_READ).out.split()
        return max(int(value) for value in said) / 1000.0 if said and all(map(bytes.isdigit, said)) else None

    return {
        outcome.host.name: outcome.value
        for outcome in on_hosts(bench, hosts, ask)
        if outcome.value is not None
    }
