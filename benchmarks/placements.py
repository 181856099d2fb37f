"""How long the placements of a large trace take: 10,000 devices x 1,000 APs x 744 steps, everyone present.

Run: python benchmarks/placements.py [devices] [aps] [steps]. Goal: each rule under 10 s on 2 cores.
"""

from __future__ import annotations

import resource
import sys
import time

from roambench.mobility.association import ASSOCIATIONS
from roambench.mobility.walks.city import city
from roambench.mobility.walks.city_parameters import CityParameters

GOAL_S = 10.0


def main() -> None:
    devices, aps, steps = [int(text) for text in sys.argv[1:4]] or (10_000, 1_000, 744)
    started = time.perf_counter()
    trace = city(CityParameters(devices=devices, aps=aps, steps=steps, presence="always"), seed=42)
    print(f"city: {len(trace.step):,} fixes in {time.perf_counter() - started:.1f} s")
    for name, rule in ASSOCIATIONS.items():
        started = time.perf_counter()
        association = rule(trace, 42)
        total_m = sum(float(association.placement(step).distances_m.sum()) for step in range(trace.steps))
        took_s = time.perf_counter() - started
        print(
            f"{name:>10}: {took_s:5.2f} s, {took_s / GOAL_S:.2f} of the goal, "
            f"{took_s / len(trace.step) * 1e6:.2f} us per placement, mean {total_m / len(trace.step):,.0f} m"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
