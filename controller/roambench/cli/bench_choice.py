"""Options of commands that run on a bench as well as on this machine, so that they are spelled alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from roambench.study.campaign.campaign import CampaignOptions
    from roambench.study.campaign.campaign_log import Listener

FleetOption = Annotated[
    str,
    typer.Option(
        metavar="local|bench:FILE",
        help="local: agent processes on this machine with emulated meters. bench:FILE: the hosts of a bench.",
    ),
]
OnlyOption = Annotated[
    list[str] | None, typer.Option(metavar="TAG|HOST", help="On a bench: these hosts only; repeatable.")
]
PreflightOption = Annotated[
    bool, typer.Option("--preflight/--no-preflight", help="On a bench: check its hosts first.")
]
UnprovenOption = Annotated[
    bool,
    typer.Option("--unproven", help="On a bench: run although no proof says which meter powers which board."),
]
CoolToOption = Annotated[
    float | None,
    typer.Option(metavar="CELSIUS", help="Before each run wait until every board is as cool as this."),
]
PauseOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="SECONDS",
        help="Wait so long where no temperature is asked for or none can be read; default: 120 on a "
        "bench or with --cool-to, else 0.",
    ),
]
CoolMostOption = Annotated[
    float, typer.Option(min=0.0, metavar="SECONDS", help="Wait at most so long for the temperature.")
]
TriesOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Tries of a run that fails or is not fit; default: 3 on a bench, else 1."
    ),
]
FailuresOption = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="K",
        help="On a bench: runs in a row that a board may spoil before it is switched off "
        "and on, then replaced by a spare or left out.",
    ),
]
LeastOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="On a bench: go on while so many boards are left; default: all but a tenth, or but one.",
    ),
]
KeepFreeOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="GIB",
        help="Wait for room where less than this and a run's size is free; default: "
        "5 on a bench, else 0: never.",
    ),
]
CampaignWaitOption = Annotated[
    float | None,
    typer.Option(
        min=0.0, metavar="S", help="On a bench that is in use: queue for so long; default: as it takes."
    ),
]
NotifyOption = Annotated[
    str | None,
    typer.Option(
        metavar="CMD|URL",
        envvar="ROAMBENCH_NOTIFY",
        help="Tell somebody what happens: a shell command that reads it, or a webhook (http, https).",
    ),
]
SummaryAtOption = Annotated[
    str | None,
    typer.Option(metavar="HH:MM", help="With --notify: a summary each day at this local time."),
]
WaitOption = Annotated[float, typer.Option(metavar="S", help="On a bench that is in use: queue for so long.")]


def campaign_options(
    *,
    on_bench: bool,
    cool_to: float | None,
    pause: float | None,
    cool_most: float,
    tries: int | None,
    failures: int,
    least: int | None,
    keep_free: float | None,
    wait: float | None,
    heard: Listener,
) -> CampaignOptions:
    """As a command's options have it, with what is usual on a bench and elsewhere."""
    from math import inf

    from roambench.study.campaign import campaign
    from roambench.study.campaign.cooling import PAUSE_S, Cooling

    usual_s = PAUSE_S if on_bench or cool_to is not None else 0.0
    return campaign.CampaignOptions(
        tries=tries if tries is not None else campaign.BENCH_TRIES if on_bench else 1,
        failures=failures,
        least=least,
        keep_free_bytes=campaign.keep_free(keep_free, on_bench=on_bench),
        cooling=Cooling(cool_to, usual_s if pause is None else pause, cool_most),
        wait_s=inf if wait is None else wait,
        heard=heard,
    )
