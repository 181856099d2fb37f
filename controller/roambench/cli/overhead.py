"""`roambench overhead`: what the instrument itself costs, in watts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.bench_choice import (
    FleetOption,
    HostChoice,
)
from roambench.cli.common_options import JsonOption, WaitOption, takes_options
from roambench.cli.run import SetOption
from roambench.contract.duty import DutyLevel

if TYPE_CHECKING:
    from roambench.instrument.overhead import Overhead, PowerDifference
    from roambench.instrument.overhead_run import OverheadResult
    from roambench.report.table import ReportTable


@takes_options
def overhead(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Experiment file (TOML).")],
    fleet: FleetOption = "local",
    minutes: Annotated[
        float, typer.Option(min=1.0, help="Device time that the fleet idles in all; longer is sharper.")
    ] = 2.0,
    agents: Annotated[int | None, typer.Option(metavar="N", help="Number of devices.")] = None,
    hosts: HostChoice,
    wait: WaitOption = 0.0,
    set_: SetOption = None,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where the run folder goes.")] = Path("runs"),
    name: Annotated[str | None, typer.Option(help="Name of the run folder.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the power that the agent itself draws on FILE's idle devices, part by part.

    Three levels in mirrored order: the meter is read and spooled; a session is held and host metrics are
    taken, too; everything, with records streaming to the controller. Emulated boards of this machine draw
    what their agents compute.

    Examples:
        roambench overhead my.toml
        roambench overhead my.toml --fleet bench:inventory/bench36.toml --minutes 30
    """
    from roambench.experiment.load import load_experiment
    from roambench.experiment.overrides import Override
    from roambench.instrument.overhead_run import RESULT, measure_overhead
    from roambench.report.console import print_table
    from roambench.runner.places.table import agents_place_of
    from roambench.runner.run_names import free_folder
    from roambench.runner.screen import in_any_case, progress_screen, say, warn

    more = {} if agents is None else {"--agents": [Override(("fleet", "agents"), agents)]}
    experiment = load_experiment(file, set_ or (), more=more)
    console = progress_screen(stderr=as_json)
    path = free_folder(runs_dir, name or f"{experiment.name}-overhead")
    with agents_place_of(experiment, fleet, hosts.bench_options(wait)).held(
        console, baselines=False
    ) as place:
        result = measure_overhead(place, minutes, path, console)
    if as_json:
        typer.echo(result.to_json(), nl=False)
        return
    with in_any_case(console):
        print_table(_table(result), console)
        say(console, result.verdict)
        for doubt in result.doubts:
            warn(console, doubt)
        say(console, f"kept in {path / RESULT}")


def _table(result: OverheadResult) -> ReportTable:
    from roambench.report.table import ReportTable

    head = ["board", "reading W", "session mW", "streaming mW", "both mW", "of idle"]
    true = any(board.true_instrument_w is not None for board in result.boards)
    rows = []
    for board in result.boards:
        truth_w = board.true_instrument_w
        truths = [("" if truth_w is None else f"{truth_w * 1e3:.1f}")] if true else []
        rows.append((board.device, *_cells(board.overhead), *truths))
    if len(result.boards) > 1:
        rows.append(("mean", *_cells(result.fleet), *([""] if true else [])))
    title = f"idle power of {len(result.boards)} boards by level, ± is 2 u, ? is not resolved"
    return ReportTable("overhead", title, "", (*head, *(["truth mW"] if true else [])), tuple(rows))


def _cells(overhead: Overhead) -> list[str]:
    idle_w = overhead.levels[DutyLevel.READER]
    parts = (overhead.agent, overhead.streaming, overhead.instrument)
    share = f"{overhead.instrument.watts / idle_w:.2%}" if idle_w > 0.0 else "–"
    return [f"{idle_w:.4f}", *map(_milliwatts, parts), share]


def _milliwatts(part: PowerDifference) -> str:
    mark = "" if part.resolved else " ?"
    return f"{part.watts * 1e3:.1f} ± {2e3 * part.u_watts:.1f}{mark}"
