"""`roambench calibrate`: find alpha and beta of the bench's own radios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roambench.cli.bench_choice import (
    BenchChecks,
    FleetOption,
)
from roambench.cli.common_options import JsonOption, WaitOption, keep_inputs, takes_options, with_sudo
from roambench.cli.run import SetOption
from roambench.contract.errors import ConfigError
from roambench.runner.bench_options import BenchOptions

if TYPE_CHECKING:
    from rich.console import Console

    from roambench.energy.links.sweep import SweepSettings
    from roambench.experiment.sections import Experiment
    from roambench.report.summaries.calibration import Calibration


@with_sudo
@takes_options
def calibrate(
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Experiment file (TOML), or the folder of a calibration to analyse again."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where the link model goes; its stem names the model."
        ),
    ],
    fleet: FleetOption = "local",
    devices: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Comma-separated, for example pi-01,pi-02 (on a bench also tags); default: all.",
        ),
    ] = "",
    sizes: Annotated[str, typer.Option(metavar="MB", help="Transfer sizes in MB (10^6 bytes).")] = "1,4,16",
    rates: Annotated[str, typer.Option(metavar="MBIT_S", help="Rates in Mbit/s.")] = "2,5,10,20,40",
    windows: Annotated[int, typer.Option(help="How often every point is measured; the mean counts.")] = 5,
    min_s: Annotated[float, typer.Option(help="A window lasts this long in device time...")] = 10.0,
    repeats: Annotated[
        int,
        typer.Option(
            help="...or this many transfers, if that is shorter; below 10 s a window does not count."
        ),
    ] = 50,
    idle_s: Annotated[float, typer.Option(help="Idle device time around every window.")] = 5.0,
    at_once: Annotated[
        int, typer.Option(min=1, help="Devices swept at the same time; on Wi-Fi they share the air.")
    ] = 1,
    checks: BenchChecks,
    wait: WaitOption = 0.0,
    set_: SetOption = None,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where the run folder goes.")] = Path("runs"),
    html: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Also write a page with fits and residuals.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sweep transfer size and rate on devices in both directions; fit and store the bench's link model.

    The model's name or file can then stand in `links.model` of an experiment and in `compare --link-model`.

    Examples:
        roambench calibrate my.toml -o links/mybench.toml
        roambench calibrate my.toml -o links/mybench.toml --rates 2,5,10 --sizes 1,4
    """
    from roambench.runner.screen import in_any_case, progress_screen, say

    keep_inputs(out, file, ending=".toml")
    keep_inputs(html, file, option="--page")
    console = progress_screen(stderr=as_json)
    if file.is_dir():
        folder = file
    else:
        from roambench.energy.links.sweep import SweepSettings
        from roambench.experiment.load import load_experiment
        from roambench.runner.run_names import free_folder

        experiment = load_experiment(file, list(set_ or []))
        settings = SweepSettings(
            tuple(round(1e6 * size) for size in _numbers("--sizes", sizes)),
            tuple(_numbers("--rates", rates)),
            windows,
            min_s,
            repeats,
            idle_s,
        )
        _warn_too_short(settings, console)
        names = tuple(name.strip() for name in devices.split(",") if name.strip())
        folder = free_folder(runs_dir, f"{experiment.name}-calibration")
        options = BenchOptions(names, checks.preflight, checks.unproven, wait)
        _sweep(experiment, fleet, options, settings, folder, console, at_once)
    made = _analysed(folder, out, html)
    if as_json:
        typer.echo(json.dumps(made.values(), indent=1))
    else:
        _print(made, console)
    with in_any_case(console):
        for what, path in (("link model", out), ("page", html), ("run folder", folder)):
            if path is not None:
                say(console, f"{what}: {path}")


def _warn_too_short(settings: SweepSettings, console: Console) -> None:
    """Before anything starts: which windows will not count; ConfigError where the others cannot be fitted."""
    from roambench.runner.screen import warn

    short = settings.too_short()
    if not short:
        return
    sentence = (
        f"{len(short)} of {len(settings.points())} settings have windows below 10 s, which do not count "
        f"(rule R7): {settings.remedy()} makes all of them long enough"
    )
    if len({point.mbit_s for point in settings.points() if point not in short}) < 2:
        raise ConfigError([f"calibration: {sentence}; at two rates at least they must be"])
    warn(console, sentence)


def _sweep(
    experiment: Experiment,
    fleet: str,
    options: BenchOptions,
    settings: SweepSettings,
    folder: Path,
    console: Console,
    at_once: int,
) -> None:
    """Sweep the devices that `options` names, of this machine or of a bench, into `folder`."""
    from roambench.instrument.calibration_run import on_devices, run_calibration
    from roambench.runner.places.table import agents_place_of

    experiment, chosen = on_devices(experiment, fleet, options.only)
    with agents_place_of(experiment, fleet, options).held(console, baselines=False) as place:
        run_calibration(place, settings, chosen, folder, console, at_once=at_once)


def _analysed(path: Path, out: Path, html: Path | None) -> Calibration:
    from roambench.experiment.link_model_file import write_link_model
    from roambench.instrument.calibration_run import CalibrationPlan
    from roambench.report.pages.calibration import calibration_page
    from roambench.report.report import write_text
    from roambench.report.summaries.calibration import calibrate as fitted
    from roambench.runs.folder import RunFolder

    with RunFolder.open(path) as folder:
        plan = CalibrationPlan.read(folder)
        windows = {
            folder.info.device_names[device]: {
                plan.order_of(device, window): window for window in plan.windows(device)
            }
            for device in plan.devices
        }
        made = fitted(out.stem, folder, windows)
    write_link_model(out, made.model)
    if html is not None:
        write_text(html, calibration_page(made))
    return made


def _print(made: Calibration, console: Console) -> None:
    from roambench.report.console import print_table
    from roambench.report.pages.calibration import fit_table, parameter_table
    from roambench.runner.screen import in_any_case, warn

    with in_any_case(console):
        for table in (parameter_table(made), fit_table(made)):
            print_table(table, console, caption=True)
        for flag in made.flags():
            warn(console, flag)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ConfigError([f"{option}: expected numbers with commas between them, got {text!r}"]) from None
