"""`roambench ab`: two experiments in turns, and how much better one is, with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.bench_choice import CampaignChoice, HostChoice, fleet_option
from roambench.cli.common_options import JsonOption, takes_options
from roambench.cli.run import FreshOption, SetOption


@takes_options
def ab(
    *,
    a: Annotated[Path, typer.Argument(metavar="A", help="Experiment file (TOML) with one system.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other; may be the same file with --set-b.")],
    repeats: Annotated[int, typer.Option(min=1, metavar="N", help="Pairs of runs; even is better.")] = 4,
    fleet: Annotated[str, fleet_option("local", "simulated", "rehearsal", "bench:")] = "local",
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where all goes; default: runs/ab-A-B."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Trace file to use instead of the experiment's.")
    ] = None,
    set_: SetOption = None,
    set_a: Annotated[
        list[str] | None, typer.Option("--set-a", metavar="KEY=VALUE", help="Override one key of A alone.")
    ] = None,
    set_b: Annotated[
        list[str] | None, typer.Option("--set-b", metavar="KEY=VALUE", help="Override one key of B alone.")
    ] = None,
    same_seed: Annotated[
        bool,
        typer.Option("--same-seed", help="One seed for all pairs: the interval is of the bench alone."),
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Only print the table of what has finished.")
    ] = False,
    fresh: FreshOption = False,
    hosts: HostChoice,
    campaign: CampaignChoice,
    as_json: JsonOption = False,
) -> None:
    """Run A and B in turns (A B, B A, ...) and tell how many times better A is, with a 95 % interval.

    Interrupted or killed, the same command goes on from what is there.

    Examples:
        roambench ab a.toml b.toml --repeats 6
        roambench ab a.toml a.toml --set-b fleet.aps=5 --fleet rehearsal
    """
    from roambench.runner.places.table import fleet_of
    from roambench.runner.screen import progress_screen
    from roambench.study.ab.ab_plan import Asked, plan_ab
    from roambench.study.ab.ab_runner import conclude, run_ab
    from roambench.study.campaign.listeners import notifying

    asked = Asked(
        a, b, fleet, repeats, same_seed, trace, tuple(set_ or ()), tuple(set_a or ()), tuple(set_b or ())
    )
    plan = plan_ab(asked)
    on_bench = fleet_of(fleet)[0].has_file
    folder = out or Path("runs") / f"ab-{a.stem}-{b.stem}"
    console = progress_screen(stderr=as_json)
    if table:
        conclude(plan, out=folder, console=console, as_json=as_json)
        return
    with notifying(folder, campaign.notify, campaign.summary_at, console) as heard:
        run_ab(
            plan,
            out=folder,
            campaign=campaign.campaign_options(heard, on_bench=on_bench),
            console=console,
            bench=hosts.bench_options(spares_wait=True) if on_bench else None,
            fresh=fresh,
            as_json=as_json,
        )
