"""What a kit must not have: names, addresses, serial numbers, keys; and what it must keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.extras.verify.collecting import _without_names
from roambench.provision.inventory.load import load_bench

BENCH = """
name = "cellar-lab"
[controller]
address = "192.168.50.1"
listen_host = "192.168.50.1"
control_port = 47100
data_port = 47101
[[hosts]]
name = "pi-42"
address = "192.168.50.142"
interface = "wlan0"
meter = { driver = "smartpower2", port = "/dev/ttyUSB7", serial = "77654321", wifi_hop = "10.0.0.9:5000" }
"""


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("pi-42 of cellar-lab does not answer", "... of ... does not answer"),
        ("10.0.0.9:5000: connection refused, from 192.168.50.142", "...: connection refused, from ..."),
        ("/dev/ttyUSB7: serial number 77654321", "...: serial number ..."),
        ("machine 4f2b90aa11cc, build 976163f55f715de5", "machine ..., build ..."),
        (
            "loss 0.69314718, 0.12345678901 s, 123456789 bytes",
            "loss 0.69314718, 0.12345678901 s, 123456789 bytes",
        ),
        ("facade, decade, 2026-11-24", "facade, decade, 2026-11-24"),
    ],
)
def test_only_what_tells_one_bench_from_another_is_hidden(tmp_path: Path, said: str, kept: str) -> None:
    path = tmp_path / "bench.toml"
    path.write_text(BENCH)
    bench = load_bench(path)
    assert _without_names(bench, bench.hosts[0], said) == kept
