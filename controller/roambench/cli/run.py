"""`roambench run`: carry out an experiment, one run per system, and compare them."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.bench_choice import HostChoice, fleet_option
from roambench.cli.common_options import JsonOption, WaitOption, keep_inputs, takes_options
from roambench.cli.report import FullOption, show
from roambench.contract.errors import RunError
from roambench.study.command_process import fork_trainings

FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Restart what died or was stopped, instead of resuming it.")
]
RunsDirOption = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of the runs: each in NAME/START/SYSTEM.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Serve a live page meanwhile, as `roambench watch` does.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key of the file, as TOML; repeatable."),
]


@takes_options
def run(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|RUN",
            help="Experiment file (TOML); or the folder or crate of one run, which is repeated.",
        ),
    ],
    fleet: Annotated[
        str | None,
        fleet_option("local", "simulated", "rehearsal", "bench:", show_default="local; of a RUN: its own"),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Trace file to use instead of the experiment's.")
    ] = None,
    agents: Annotated[
        int | None, typer.Option(metavar="N", help="Number of devices; 0: all of the trace.")
    ] = None,
    set_: SetOption = None,
    runs_dir: RunsDirOption = Path("runs"),
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the experiment, instead of the file's.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where the HTML report goes; else beside the runs."
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Estimate hours, joules, bytes and disk without running."),
    ] = False,
    fresh: FreshOption = False,
    full: FullOption = False,
    hosts: HostChoice,
    wait: WaitOption = 0.0,
    watch: WatchOption = False,
    as_json: JsonOption = False,
) -> Path | None:
    """Run FILE's experiment: every system once, then the comparison and an HTML report.

    Runs that died or were stopped go on where they were. RUN is repeated from its own folder: its
    experiment, movement and seed, on the same kind of fleet; whether its models are the same is said.

    Examples:
        roambench run my.toml
        roambench run my.toml --fleet bench:inventory/bench36.toml --watch
    """
    from roambench.experiment.load import load_experiment
    from roambench.experiment.overrides import Override

    more = {}
    if agents is not None:
        more["--agents"] = [Override(("fleet", "agents"), agents)]
    if name is not None:
        more["--name"] = [Override(("name",), name)]
    before = None
    if file.is_dir() or file.suffix == ".zip":
        from roambench.runner.repeating import one_run, recorded_run

        before = recorded_run(one_run(file), fleet or "")
        fleet = before.fleet
    fleet = fleet or "local"
    source = file if before is None else before.written
    experiment = load_experiment(source, set_ or (), trace_file=trace, more=more)
    keep_inputs(html, file, experiment.trace.file)

    from roambench.runner.screen import RUN_PHASES, in_any_case, phase, print_json, progress_screen, say

    console = progress_screen(stderr=as_json)
    text = f"{file}: {', '.join(experiment.systems)} on {fleet}"
    if plan:
        say(console, f"plan {text}")
        from roambench.plan.plan import plan_experiment
        from roambench.plan.tables import plans_document, print_plans

        plans = plan_experiment(experiment, fleet, hosts.only or ())
        if as_json:
            print_json(plans_document(plans))
        else:
            with in_any_case(console):
                print_plans(plans, console)
        return None

    phase(console, 1, RUN_PHASES, f"check {text}")  # before torch is read
    from roambench.plan.expected import expected_s
    from roambench.runner.composition import SystemsFailed, run_experiment
    from roambench.runner.live_page import live_page
    from roambench.runs.groups import REPORT

    problems: list[str] = []
    try:
        with live_page(runs_dir) if watch else nullcontext():
            fork_trainings(fleet)
            runs = run_experiment(
                experiment,
                fleet=fleet,
                runs_dir=runs_dir,
                console=console,
                bench=hosts.bench_options(wait),
                fresh=fresh or before is not None,
                expected_s=expected_s,
            )
    except SystemsFailed as error:
        runs, problems = list(error.finished), str(error).splitlines()
    except KeyboardInterrupt:
        restart = shlex.join(["roambench", *sys.argv[1:], *["--fresh"] * (not fresh)])
        with in_any_case(console):
            say(console, f"  restart      {restart}")
        raise
    page = (html or runs[0].parent / REPORT) if runs else None
    if page is not None:
        phase(console, RUN_PHASES, RUN_PHASES, f"compare {len(runs)} run{'s' * (len(runs) != 1)}")
        made = show(runs, html=page, as_json=as_json, console=console, full=full)
        if before is not None:
            from roambench.runner.repeating import say_whether_equal

            with in_any_case(console):
                say_whether_equal(before, runs, console)
        problems += [
            f"run {summary.info.run_id}: {summary.orders.fruitless}"
            for summary in made.summaries
            if summary.orders.fruitless
        ]
    if problems:
        raise RunError("\n".join(problems))
    return page
