"""All benchmarks in turn, then the table of README.md: `make bench` runs this.

    python benchmarks/bench.py [--full] [--flower PYTHON] [--pfl PYTHON] [NAME ...]

What a benchmark prints is in `build/bench/NAME.txt`, its figures in `NAME.jsonl`. Those that have figures
of today are not run again, so that an interrupted run goes on; those that are named run in any case. The load
is the number of cores that were busy in the second before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil
from setting.figures import FILE

HERE = Path(__file__).parent
KEPT = HERE.parent / "build" / "bench"


@dataclass(frozen=True)
class Bench:
    name: str
    command: str = ""  # program and arguments; "" is the program of that name
    long: bool = False  # run by --full alone
    peers: tuple[str, ...] = ()  # each can be given as --PEER PYTHON
    needs: str = ""  # a peer, or "GPU"


BENCHES = (
    Bench("evaluation"),
    Bench("simulation", "simulation --images 500 --rounds 4", peers=("flower", "pfl")),
    Bench("transport"),
    Bench("rounds"),
    Bench("agents"),
    Bench("light_agents", "light_agents --agents 1000"),
    Bench("light_agents-influx", "light_agents --agents 1000 --influx"),
    Bench("rehearsals", "rehearsals --devices 100000"),
    Bench("training"),
    Bench("aggregation", "aggregation --models 36", peers=("flower",)),
    Bench("stacked", "stacked --devices 50 --stacks 50", needs="GPU"),
    Bench("readings"),
    Bench("checkpoints"),
    Bench("host_metrics"),
    Bench("watching"),
    Bench("placements"),
    Bench("flower_rounds", peers=("flower",), needs="flower"),
    Bench("light_agents-2000", "light_agents --agents 2000", long=True),
    Bench("rehearsals-always", "rehearsals --devices 100000 --present always", long=True),
    Bench("rehearsals-million", "rehearsals --devices 1000000", long=True),
    Bench("long_report", "long_report --days 31", long=True),
    Bench("scale", long=True),
    Bench("shipping", long=True),
    Bench("trace_import", "trace_import --full --only cabspotting", long=True),
    Bench("reproduction", long=True),
)


def machine() -> str:
    """Processor, cores, memory and the versions on which speed depends most."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.machine()
    memory_gib = psutil.virtual_memory().total / 2**30
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "grpcio"))
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {processor}, {memory_gib:.0f} GiB, Python {platform.python_version()}, {versions}"
    )


def has_figures_of_today(path: Path) -> bool:
    rows = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return bool(rows) and json.loads(rows[-1])["date"] == time.strftime("%Y-%m-%d")


def run(bench: Bench, peers: list[str]) -> bool:
    """Whether it ended with figures or with status 0; they take the place of its earlier ones then."""
    KEPT.mkdir(parents=True, exist_ok=True)
    program, *arguments = (bench.command or bench.name).split()
    rows, text = KEPT / f"{bench.name}.running", KEPT / f"{bench.name}.txt"
    rows.write_text("")
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "load": round(psutil.cpu_percent(1.0) / 100 * (os.cpu_count() or 1), 1),
        "machine": machine(),
    }
    print(f"{bench.name:20}", end="", flush=True)
    began_s = time.monotonic()
    with text.open("w") as printed:
        status = subprocess.run(
            [sys.executable, str(HERE / f"{program}.py"), *arguments, *peers],
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, FILE: str(rows)},
        ).returncode
    print(
        f"{time.monotonic() - began_s:6.0f} s" + (f"  status {status}: {text}" if status else ""), flush=True
    )
    found = [json.loads(line) | about for line in rows.read_text(encoding="utf-8").splitlines()]
    rows.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found), encoding="utf-8")
    if found:
        rows.rename(KEPT / f"{bench.name}.jsonl")
    return bool(found) or status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="those that take long, too")
    parser.add_argument("--flower", metavar="PYTHON", help="interpreter that has Flower")
    parser.add_argument("--pfl", metavar="PYTHON", help="interpreter that has pfl")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(bench.name for bench in BENCHES))
    asked = parser.parse_args()
    if unknown := set(asked.names) - {bench.name for bench in BENCHES}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    failed = []
    for bench in BENCHES:
        given = [(peer, getattr(asked, peer)) for peer in bench.peers if getattr(asked, peer)]
        if asked.names:
            wanted = bench.name in asked.names
        else:
            wanted = asked.full or not bench.long
            if wanted and has_figures_of_today(KEPT / f"{bench.name}.jsonl"):
                print(f"{bench.name:20} has figures of today")
                wanted = False
        has = [peer for peer, _ in given] + ["GPU"] * Path("/proc/driver/nvidia/version").exists()
        if wanted and bench.needs and bench.needs not in has:
            print(f"{bench.name:20} needs {bench.needs}")
        elif wanted and not run(bench, [word for peer, python in given for word in (f"--{peer}", python)]):
            failed.append(bench.name)
    subprocess.run([sys.executable, str(HERE / "table.py")], check=True)
    if failed:
        print(f"without figures: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
