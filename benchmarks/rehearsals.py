"""A day of 24 steps rehearsed for many virtual devices, from the command to its report.

    python benchmarks/rehearsals.py [--devices 20000 100000] [--present city always] [--aps 100]

`city`: who is there by the city's own day, a twentieth at a time; `always`: everybody in every step. Goals
at 100,000 devices: 60 CPU-s and 1,000 MB; at a million: 600 and 4,000. "us each" and "bytes", the size of
the event log, are of a device-step: a device that is there in a step.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from setting.figures import keep

from roambench.rounds.records import StepOpened
from roambench.runs.folder import RunFolder

STEPS = 24
#: Those that have goals.
FIGURES = {
    ("city", 100_000): "city 1e5",
    ("always", 100_000): "always 1e5",
    ("city", 1_000_000): "city 1e6",
}
EXPERIMENT = """\
seed = 3
systems = ["mohawk"]
[trace]
generator = "city"
window = "first"
steps = {steps}
parameters = {{ devices = {devices}, aps = {aps}, steps = {steps}{presence} }}
[fleet]
agents = 0
aps = {aps}
"""


def rehearsed(folder: Path, devices: int, aps: int, present: str) -> tuple[float, float, int, int]:
    """CPU seconds, megabytes at the peak, device-steps and bytes of the event log."""
    presence = ', presence = "always"' if present == "always" else ""
    text = EXPERIMENT.format(devices=devices, aps=aps, steps=STEPS, presence=presence)
    (folder / "day.toml").write_text(text)
    words = [sys.executable, "-m", "roambench.cli.main", "run", "day.toml", "--fleet", "rehearsal"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (run,) = {path.resolve().parent for path in folder.glob("runs/*/*/*/run.json")}
    with RunFolder.open(run) as opened:
        device_steps = sum(len(record.devices) for record in opened.read_log().only(StepOpened))
    size = (run / "events.sqlite").stat().st_size
    return cpu_s, after.ru_maxrss / 1024, device_steps, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--present", nargs="+", choices=("city", "always"), default=["city"])
    parser.add_argument("--aps", type=int, default=100)
    asked = parser.parse_args()
    print("   devices  present   CPU s     MB  us each  bytes")
    for present in asked.present:
        for devices in asked.devices:  # ascending: a child's peak is the greatest so far
            with tempfile.TemporaryDirectory(prefix="roambench-") as folder:
                cpu_s, peak_mb, count, size = rehearsed(Path(folder), devices, asked.aps, present)
            each = f"{cpu_s / count * 1e6:9.0f}{size / count:7.0f}"
            print(f"{devices:10,}{present:>9}{cpu_s:8.1f}{peak_mb:7.0f}{each}", flush=True)
            if figure := FIGURES.get((present, devices)):
                keep(f"rehearsals {figure}: CPU", cpu_s)
                keep(f"rehearsals {figure}: peak", peak_mb)
                keep(f"rehearsals {figure}: log", size / count)


if __name__ == "__main__":
    main()
