"""Benches for tests, made of one written description."""

from __future__ import annotations

from pathlib import Path

from roambench.provision.bench import Bench
from roambench.provision.inventory import load_bench

_CONTROLLER = '[controller]\naddress = "10.36.0.1"\n'


def bench_of(folder: Path, hosts: str, *, more: str = _CONTROLLER) -> Bench:
    """The bench `bench.toml` in `folder` describes with these [[hosts]] tables."""
    path = folder / "bench.toml"
    path.write_text(f"{more}\n{hosts}\n")
    return load_bench(path)
