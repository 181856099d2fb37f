"""`roambench ab`: two experiments in turns, and how much better one is, with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.controller.commands.bench_choice import OnlyOption, PreflightOption, UnprovenOption, WaitOption
from roambench.controller.commands.run import FreshOption, SetOption


def ab(
    a: Annotated[Path, typer.Argument(metavar="A", help="Experiment file (TOML) with one system.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other; may be the same file with --set-b.")],
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Pairs of runs; even is better.")] = 4,
    fleet: Annotated[str, typer.Option(metavar="local|simulated|rehearsal|bench:FILE")] = "local",
    cool_to: Annotated[
        float | None,
        typer.Option(metavar="CELSIUS", help="Before each run wait until every board is as cool as this."),
    ] = None,
    pause: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="Wait so long where no temperature is asked for or none can be read; default: 120 on a "
            "bench or with --cool-to, else 0.",
        ),
    ] = None,
    cool_most: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Wait at most so long for the temperature.")
    ] = 1800.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where all goes; default: runs/ab-<A>-<B>.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Trace file to use instead of the experiments'.")
    ] = None,
    set_: SetOption = None,
    set_a: Annotated[
        list[str] | None, typer.Option("--set-a", metavar="KEY=VALUE", help="Override a key of A alone.")
    ] = None,
    set_b: Annotated[
        list[str] | None, typer.Option("--set-b", metavar="KEY=VALUE", help="Override a key of B alone.")
    ] = None,
    same_seed: Annotated[
        bool,
        typer.Option("--same-seed", help="One seed for all pairs: the interval is of the bench alone."),
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Only print and write the table of what has finished.")
    ] = False,
    fresh: FreshOption = False,
    only: OnlyOption = None,
    preflight: PreflightOption = True,
    unproven: UnprovenOption = False,
    wait: WaitOption = 0.0,
) -> None:
    """Run A and B in turns (A B, B A, ...) and tell how many times better A is, with a 95 % interval.

    Interrupted or killed, the same command goes on from what is there.
    """
    from roambench.controller.ab.ab_plan import Asked, plan_ab
    from roambench.controller.ab.ab_runner import conclude, run_ab
    from roambench.controller.ab.cooling import PAUSE_S, Cooling
    from roambench.controller.bench_options import BenchOptions
    from roambench.controller.lasting_console import lasting_console

    on_bench = fleet.startswith("bench:")
    asked = Asked(
        a, b, fleet, repeats, same_seed, trace, tuple(set_ or ()), tuple(set_a or ()), tuple(set_b or ())
    )
    plan = plan_ab(asked)
    folder = out or Path("runs") / f"ab-{a.stem}-{b.stem}"
    console = lasting_console()
    if table:
        conclude(plan, out=folder, console=console)
        return
    waits_s = (PAUSE_S if on_bench or cool_to is not None else 0.0) if pause is None else pause
    run_ab(
        plan,
        out=folder,
        cooling=Cooling(cool_to, waits_s, cool_most),
        console=console,
        bench=BenchOptions(tuple(only or ()), preflight, unproven, wait) if on_bench else None,
        fresh=fresh,
    )
