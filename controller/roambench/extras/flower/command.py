"""`roambench flower run`: a Flower app, unchanged, on a fleet, with its joules."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from roambench.cli.bench_choice import HostChoice, fleet_option
from roambench.cli.common_options import JsonOption, WaitOption, keep_inputs, takes_options, with_progress
from roambench.cli.report import FullOption, show
from roambench.cli.run import RunsDirOption, SetOption
from roambench.contract.errors import ConfigError

_PAIR = re.compile(r"(\S+?)=('[^']*'|\"[^\"]*\"|\S+)")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
#: Device time in which an app may compute: Flower's own runtime waits for hours.
_DEADLINE_S = 3600.0


def register(app: typer.Typer) -> None:
    """Add `flower` and its command to `app`."""
    flower = typer.Typer(
        name="flower", help="Flower apps, unchanged, with their joules.", no_args_is_help=True
    )
    flower.command("run")(with_progress(run_app))
    flower.callback()(_group)
    app.add_typer(flower, rich_help_panel="Run")


def _group() -> None:
    """Flower apps, unchanged, with their joules."""


@takes_options
def run_app(
    *,
    folder: Annotated[
        Path, typer.Argument(metavar="APP_DIR", help="Folder of the app, with its pyproject.toml.")
    ],
    fleet: Annotated[str, fleet_option("local", "simulated", "bench:")] = "local",
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Trace file: who is reachable when; without it everybody is, all the time."
        ),
    ] = None,
    agents: Annotated[int, typer.Option(min=1, metavar="N", help="Number of devices, each a node.")] = 4,
    run_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE...", help="Change the app's run config, as `flwr run` does; repeatable."
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME...",
            help="Systems of ours in which the app's clients train, in place of its ServerApp; repeatable.",
        ),
    ] = None,
    python: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="Interpreter with flwr and what the app imports; default: roambench's own."
        ),
    ] = "",
    set_: SetOption = None,
    runs_dir: RunsDirOption = Path("runs"),
    html: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where the HTML report goes; else beside the run."
        ),
    ] = None,
    full: FullOption = False,
    hosts: HostChoice,
    wait: WaitOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Run a Flower app's ServerApp and ClientApp, unchanged, and report its joules.

    Each device is a node; its ClientApp runs in a separate process. What the ServerApp writes is in
    the run's folder `server-app`.

    Examples:
        roambench flower run quickstart-pytorch --run-config "num-server-rounds=5 batch-size=16"
        roambench flower run my-app --trace month.parquet --system mohawk --system hierfavg
    """
    from roambench.experiment.load import WrittenExperiment, load_experiment
    from roambench.extras.flower.app import read_app
    from roambench.plan.expected import expected_s
    from roambench.runner.composition import run_experiment
    from roambench.runner.screen import RUN_PHASES, phase, progress_screen
    from roambench.runs.groups import REPORT
    from roambench.study.command_process import fork_trainings

    keep_inputs(html, folder, trace)
    settings = config_of(run_config or [])
    app = read_app(folder, settings)
    values: dict[str, Any] = {
        "name": _NOT_IN_NAMES.sub("-", app.name).strip("-._")[:64] or "flower-app",
        "systems": system or ["flower"],
        "fleet": {"agents": agents, "deadline_s": _DEADLINE_S},
        "program": {
            "name": "flower",
            "folder": str(folder.resolve()),
            "settings": settings,
            "python": python,
            "reachable": "everybody" if trace is None and not system else "trace",
        },
    }
    written = WrittenExperiment(values, "roambench flower run", Path.cwd())
    experiment = load_experiment(written, set_ or (), trace_file=trace)
    console = progress_screen(stderr=as_json)
    phase(console, 1, RUN_PHASES, f"check {folder}: {app.name} on {fleet}")
    fork_trainings(fleet)
    runs = run_experiment(
        experiment,
        fleet=fleet,
        runs_dir=runs_dir,
        console=console,
        bench=hosts.bench_options(wait),
        fresh=True,
        expected_s=expected_s,
    )
    phase(console, RUN_PHASES, RUN_PHASES, "report")
    show(runs, html=html or runs[0].parent / REPORT, as_json=as_json, console=console, full=full)


def config_of(pairs: list[str]) -> dict[str, Any]:
    """Keys and values as `flwr run --run-config` has them: "key=1 other='text'". ConfigError for others."""
    found: dict[str, Any] = {}
    for text in pairs:
        if _PAIR.sub("", text).strip():
            raise ConfigError([f"--run-config {text}: expected key=value, more of them after a blank"])
        for key, value in _PAIR.findall(text):
            try:
                found[key] = tomllib.loads(f"value = {value}")["value"]
            except tomllib.TOMLDecodeError:
                raise ConfigError(
                    [f"--run-config {key}: expected a TOML value (a text in quotes), got {value}"]
                ) from None
    return found
