"""Benches for tests: read of a written description, or made of made-up hosts."""

from __future__ import annotations

from pathlib import Path

from roambench.provision.bench import Bench, ControllerEntry, Host, MeterEntry
from roambench.provision.inventory.load import load_bench

_CONTROLLER = '[controller]\naddress = "10.36.0.1"\n'


def bench_of(folder: Path, hosts: str, *, more: str = _CONTROLLER) -> Bench:
    """The bench `bench.toml` in `folder` describes with these [[hosts]] tables."""
    path = folder / "bench.toml"
    path.write_text(f"{more}\n{hosts}\n")
    return load_bench(path)


def a_host(number: int, **changes: object) -> Host:
    meter = {
        "driver": "smartpower2",
        "port": "/dev/roambench-meter",
        "serial": f"SN{number}",
        "gain": 1.0,
        "offset_watts": 0.0,
        "wifi_hop": "",
        "emulated": False,
    } | {key: changes.pop(key) for key in list(changes) if key in MeterEntry.__slots__}
    values = {
        "name": f"pi-{number:02d}",
        "address": f"10.0.0.{number}",
        "ssh_user": "pi",
        "ssh_port": 22,
        "ssh_key": None,
        "slot": number,
        "meter": MeterEntry(**meter),  # type: ignore[arg-type]
        "interface": "wlan0",
        "tags": (),
    } | changes
    return Host(**values)  # type: ignore[arg-type]


def a_bench(folder: Path, *hosts: Host) -> Bench:
    return Bench(
        name="bench",
        file=folder / "bench.toml",
        hosts=hosts or tuple(a_host(number) for number in (1, 2, 3)),
        controller=ControllerEntry("10.0.0.100", "0.0.0.0", 7001, 7002),
        influxdb=None,
        time_server="10.0.0.100",
        state_dir=folder / ".bench",
    )
