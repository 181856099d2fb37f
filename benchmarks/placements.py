"""How long the placements of a large trace take: who is there, which AP is nearest, what its link carries.

    python benchmarks/placements.py [--devices 10000] [--aps 1000] [--steps 744]

For every (device, step) at which a device is present: its AP by each association rule, the distance, and
Eq. 2's throughput up and down; step by step, as the round loop reads placements. Once with the city's own
presence and once with everybody present always, each in a process of its own, so that memory (the trace's
and what made it included) is its own. Goals: the nearest AP with both throughputs in 10 CPU-s, 2 GB.
A goal missed exits with 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from setting.figures import keep

from roambench.energy.links.throughput import DistanceStatistics, throughput_mbit_s
from roambench.mobility.association import ASSOCIATIONS, distance_statistics
from roambench.mobility.trace import Trace
from roambench.mobility.walks.city import city
from roambench.mobility.walks.city_parameters import CityParameters

GOAL_S = 10.0
GOAL_MB = 2000.0


def replayed(trace: Trace, rule: str) -> tuple[float, str]:
    """CPU seconds for all steps of the trace, and what came out of them."""
    started_s = time.process_time()
    association = ASSOCIATIONS[rule](trace, 42)
    statistics = DistanceStatistics(*distance_statistics(association))
    pairs = wifi = 0
    up_mbit_s = down_mbit_s = 0.0
    for step in range(trace.steps):
        placement = association.placement(step)
        pairs += len(placement.devices)
        up = throughput_mbit_s(placement.distances_m, statistics, "up")
        down = throughput_mbit_s(placement.distances_m, statistics, "down")
        up_mbit_s += float(up.sum())
        down_mbit_s += float(down.sum())
        wifi += int(np.count_nonzero(up == down))
    took_s = time.process_time() - started_s
    if pairs != len(trace.step):
        raise SystemExit(f"{rule}: {pairs} placements of {len(trace.step)} fixes")
    return took_s, (
        f"mean distance {statistics.mean_m:,.0f} m, "
        f"{100 * wifi / pairs:.1f} % Wi-Fi, mean "
        f"{up_mbit_s / pairs:.1f} up and {down_mbit_s / pairs:.1f} down Mbit/s"
    )


def child(parameters: CityParameters) -> None:
    started_s = time.perf_counter()
    trace = city(parameters, seed=42)
    print(
        f"presence {parameters.presence}: {len(trace.step):,} (device, step) pairs, at most "
        f"{np.bincount(trace.step, minlength=trace.steps).max():,} at once; city made in "
        f"{time.perf_counter() - started_s:.1f} s"
    )
    took_s = {}
    for rule in ASSOCIATIONS:
        took_s[rule], told = replayed(trace, rule)
        print(f"{rule:>11}: {took_s[rule]:5.2f} CPU-s, {told}")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if parameters.presence == "always":
        keep("placements: CPU", took_s["nearest"])
        keep("placements: memory", peak_mb)
    met = took_s["nearest"] < GOAL_S and peak_mb < GOAL_MB
    print(
        f"       goal: {took_s['nearest']:.2f} CPU-s of {GOAL_S:g}, {peak_mb:,.0f} MB of {GOAL_MB:,.0f} MB: "
        f"{'PASS' if met else 'FAIL'}",
        flush=True,
    )
    sys.exit(0 if met else 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--aps", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=744)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(CityParameters(**json.loads(arguments.child)))
    size = {"devices": arguments.devices, "aps": arguments.aps, "steps": arguments.steps}
    missed = [
        subprocess.run(
            [sys.executable, __file__, "--child", json.dumps({**size, "presence": presence})]
        ).returncode
        for presence in ("routine", "always")
    ]
    sys.exit(max(missed))


if __name__ == "__main__":
    main()
