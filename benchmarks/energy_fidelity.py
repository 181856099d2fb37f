"""The proof of the energy: runs whose truth is known, measured as real ones are.

    python benchmarks/energy_fidelity.py --worlds [--seeds 20] [--jobs 2] [NAME ...]
    python benchmarks/energy_fidelity.py --planned [--seeds 20] [--jobs 2] [NAME ...]
    python benchmarks/energy_fidelity.py --list

`fidelity` draws boards and meters from their physics alone and shares no code with estimator or emulator. Of
each world a line says, for the net energy of downloads, uploads, exchanges and trainings and the gross one of
the whole run: bias in % of the truth, runs in which ± 2 u holds it in %, the median of 2 u in %, and the
standard deviation of z = (measured - true) / u. The meter's true gain is divided out, and u has no term for
it. Then the flags, in % of the runs, and the verdict:

- a world that holds is met when ± 2 u holds every figure in 93 % of the runs, but for chance of 1 %, and a
  tenth of them carry a flag at most;
- another one when 90 % of the runs carry the flag that names its cause, or when it is right all the same.

Lines appear as they are done; a world that is not met exits with 1.

`--planned` holds what `run --plan` expects of the width of each net energy, from durations, numbers, powers,
rests and meter, against the width that the estimator prints: met within a factor of 1.3 in the median of the
runs. It takes the worlds of which a plan can know as much.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fidelity import planned
from fidelity.catalogue import WORLDS
from fidelity.judged import FIGURES, FLAGS, Column, Row, Run, run_of
from fidelity.world import LOADS

DEFAULT_SEEDS = 20
SHORT = {"download": "down", "upload": "up"}


def one(task: tuple[str, int]) -> Run:
    return run_of(*task)


def heading() -> str:
    cells = "".join(f"{SHORT.get(what, what):>25s}" for what in FIGURES)
    units = f"{'bias':>8s}{'held':>5s}{'2u':>6s}{'sd z':>6s}" * len(FIGURES)
    flags = "".join(f"{flag.split()[-1]:>8s}" for flag in FLAGS)
    return f"{'world':19s}{cells}{flags}  verdict\n{'':19s}{units}"


def cell(column: Column | None) -> str:
    if column is None:
        return f"{'-':>25s}"
    return f"{100 * column.bias:+8.1f}{100 * column.held:5.0f}{100 * column.median_2u:6.1f}{column.z_sd:6.2f}"


def line(row: Row) -> str:
    cells = "".join(cell(row.columns.get(what)) for what in FIGURES)
    flags = "".join(f"{100 * row.flagged[flag]:8.0f}" for flag in FLAGS)
    return f"{row.name:19s}{cells}{flags}  {row.verdict}"


def worlds(names: Sequence[str], seeds: int, jobs: int) -> list[Row]:
    """The rows of the worlds, printed one by one."""
    print(heading(), flush=True)
    rows = []
    for name, runs in runs_of(names, seeds, jobs):
        rows.append(Row.of(name, runs))
        print(line(rows[-1]), flush=True)
    return rows


def runs_of(names: Sequence[str], seeds: int, jobs: int) -> Iterator[tuple[str, list[Run]]]:
    """The runs of each world, one world after the other."""
    os.environ["OMP_NUM_THREADS"] = "1"  # of the fresh processes, which would compete for the cores
    tasks = [(name, seed) for name in names for seed in range(seeds)]
    # Fresh processes: a fork of one that has used gRPC may hang in what gRPC left behind.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        done = pool.map(one, tasks, chunksize=4)
        for name in names:
            yield name, list(islice(done, seeds))


def planned_worlds(names: Sequence[str], seeds: int, jobs: int) -> bool:
    """Print predicted over printed width; whether all of them are within the goal."""
    print(f"{'predicted/printed':19s}" + "".join(f"{SHORT.get(what, what):>10s}" for what in LOADS))
    met = True
    for name, runs in runs_of(names, seeds, jobs):
        found = planned.over_printed(name, runs)
        good = all(1.0 / planned.GOAL <= ratio <= planned.GOAL for ratio in found.values())
        cells = "".join(f"{found[what]:10.2f}" if what in found else f"{'-':>10s}" for what in LOADS)
        print(f"{name:19s}{cells}{'' if good else '  NOT MET'}", flush=True)
        met &= good
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--worlds", action="store_true", help="the default, and all that there is")
    parser.add_argument("--planned", action="store_true", help="widths as planned and as printed")
    parser.add_argument("--list", action="store_true", help="names and descriptions of the worlds")
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help=f"default {DEFAULT_SEEDS}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", metavar="NAME", help="these worlds only")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in WORLDS]:
        parser.error(f"no such world: {', '.join(unknown)} (--list)")
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}, expected 1 or more")
    if options.list:
        print("\n".join(f"{name:19s} {spec['desc']}" for name, spec in WORLDS.items()))
        return 0
    if options.planned:
        return 0 if planned_worlds(options.names or planned.KNOWN, options.seeds, options.jobs) else 1
    started = time.perf_counter()
    names = options.names or list(WORLDS)
    rows = worlds(names, options.seeds, options.jobs)
    unmet = [row.name for row in rows if row.verdict.startswith("NOT MET")]
    print(
        f"\n{len(rows) - len(unmet)} of {len(rows)} worlds met, {options.seeds} runs each, in "
        f"{time.perf_counter() - started:.0f} s." + (f" Not met: {', '.join(unmet)}." if unmet else "")
    )
    return 1 if unmet else 0


if __name__ == "__main__":
    sys.exit(main())
