"""How near the presets of the synthetic city come to their targets, and how much that hangs on the seed.

    python benchmarks/city_presets.py [--seeds 20]

Prints every statistic of `roambench trace stats` that has a published figure: its range and mean over the
seeds, the mean's and the farthest seed's distance from the figure, and how many seeds lie within 15 % of it.
"""

from __future__ import annotations

import argparse
import statistics

from rich.console import Console
from rich.table import Table

from roambench.cli.trace_tables import number
from roambench.mobility.paper import CHECKIN_TARGETS, PAPER_TARGETS
from roambench.mobility.statistics import trace_statistics
from roambench.mobility.walks import GENERATORS

FIRST = (42, 182, 392)  # MOHAWK's own, for which the tests assert 15 %
WITHIN = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many; the first are 42, 182 and 392")
    seeds = (*FIRST, *range(1, 1000))[: parser.parse_args().seeds]
    console = Console(width=140)
    for preset, targets in (("mohawk", PAPER_TARGETS), ("checkins", CHECKIN_TARGETS)):
        city = GENERATORS.load("city")
        found = [trace_statistics(city.generate(seed, {"preset": preset})) for seed in seeds]
        table = Table(title=f"{preset}: {len(seeds)} seeds", title_justify="left")
        for heading in ("", "published", "least", "mean", "most", "mean off by", "farthest", "within 15 %"):
            table.add_column(heading, justify="right" if heading else "left")
        whole = [True] * len(seeds)
        for target in targets:
            ours = [target.ours(one) for one in found]
            off = [target.deviation(one) for one in found]
            whole = [before and abs(now) <= WITHIN for before, now in zip(whole, off, strict=True)]
            table.add_row(
                target.label,
                number(target.paper) + ("" if target.to is None else f" to {number(target.to)}"),
                *(number(value) for value in (min(ours), statistics.fmean(ours), max(ours))),
                f"{target.off(statistics.fmean(ours)):+.0%}",
                f"{max(off, key=abs):+.0%}",
                f"{sum(abs(one) <= WITHIN for one in off)}",
            )
        console.print(table)
        console.print(f"{preset}: all statistics within 15 % for {sum(whole)} of {len(seeds)} seeds\n")


if __name__ == "__main__":
    main()
