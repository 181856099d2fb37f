"""Options of commands that run on a bench as well as on this machine, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roambench.cli.common_options import ONLY_HELP, WAIT_HELP, SudoOption, ask_sudo_password
from roambench.runner.bench_options import BenchOptions

if TYPE_CHECKING:
    from roambench.study.campaign.campaign import CampaignOptions
    from roambench.study.campaign.campaign_log import Listener


def completing(*fleets: str) -> Callable[[str], list[str]]:
    """Complete the fleets that an option takes; behind `bench:` TOML files of this folder."""

    def complete(incomplete: str) -> list[str]:
        bench = "bench:"
        files = [f"{bench}{path}" for path in sorted(Path().glob("*.toml"))] if bench in fleets else []
        found = files if incomplete.startswith(bench) else fleets
        return [fleet for fleet in found if fleet.startswith(incomplete)]

    return complete


_FLEETS = {
    "local": "local: agent processes on this machine, with emulated meters.",
    "simulated": "simulated: virtual devices, trained by one worker per core.",
    "rehearsal": "rehearsal: which devices train, upload and waste, without training or energy.",
    "bench:": "bench:FILE: the hosts of a bench, with its meters.",
}


def fleet_option(*fleets: str, show_default: bool | str = True) -> Any:
    """The option --fleet of a command that takes these fleets."""
    return typer.Option(
        metavar="FLEET",
        autocompletion=completing(*fleets),
        help=" ".join(_FLEETS[fleet] for fleet in fleets),
        show_default=show_default,
    )


FleetOption = Annotated[str, fleet_option("local", "bench:")]


@dataclass(frozen=True, slots=True)
class BenchChecks:
    """Checks of a bench before a run."""

    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="On a bench: check its hosts first.")
    ] = True
    unproven: Annotated[
        bool,
        typer.Option(
            "--unproven", help="On a bench: run although no proof says which meter powers which board."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class HostChoice(BenchChecks):
    """The hosts of a bench that take part, and the checks of them."""

    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG|HOST",
            help=ONLY_HELP,
        ),
    ] = None

    ask_sudo: SudoOption = False

    def bench_options(self, wait_s: float = 0.0, *, spares_wait: bool = False) -> BenchOptions:
        """Options of a run on these hosts."""
        if self.ask_sudo:
            ask_sudo_password()
        return BenchOptions(tuple(self.only or ()), self.preflight, self.unproven, wait_s, spares_wait)


@dataclass(frozen=True, slots=True)
class CampaignChoice:
    """Options of many runs that look after their bench."""

    cool_to: Annotated[
        float | None,
        typer.Option(metavar="CELSIUS", help="Before each run wait until every board is as cool as this."),
    ] = None
    pause: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            help="Wait this long where no temperature is asked for or none can be read; default: 120 on a "
            "bench or with --cool-to, else 0.",
        ),
    ] = None
    cool_most: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Wait at most this long for the temperature.")
    ] = 1800.0
    tries: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Tries of a run that fails or is not fit; default: 3 on a bench, else 1."
        ),
    ] = None
    failures: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="K",
            help="On a bench: runs in a row that a board may spoil before it is switched off "
            "and on, then replaced by a spare or left out.",
        ),
    ] = 2
    least: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="On a bench: go on while this many boards are left; default: all but a tenth, "
            "or all but one.",
        ),
    ] = None
    keep_free: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="GIB",
            help="Wait for room where less than this and a run's size is free; default: "
            "5 on a bench, else 0: never.",
        ),
    ] = None
    wait: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="S", help=WAIT_HELP, show_default="without a limit"),
    ] = None
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="CMD|URL",
            envvar="ROAMBENCH_NOTIFY",
            help="Send notifications to a shell command, as its input, or to a webhook (http, https).",
        ),
    ] = None
    summary_at: Annotated[
        str | None,
        typer.Option(metavar="HH:MM", help="With --notify: a summary each day at this local time."),
    ] = None

    def campaign_options(self, heard: Listener, *, on_bench: bool) -> CampaignOptions:
        """The campaign's options, with the defaults of a bench or of this machine."""
        from math import inf

        from roambench.study.campaign import campaign
        from roambench.study.campaign.cooling import PAUSE_S, Cooling

        default_s = PAUSE_S if on_bench or self.cool_to is not None else 0.0
        pause_s = default_s if self.pause is None else self.pause
        return campaign.CampaignOptions(
            tries=self.tries if self.tries is not None else campaign.BENCH_TRIES if on_bench else 1,
            failures=self.failures,
            least=self.least,
            keep_free_bytes=campaign.keep_free(self.keep_free, on_bench=on_bench),
            cooling=Cooling(self.cool_to, pause_s, self.cool_most),
            wait_s=inf if self.wait is None else self.wait,
            heard=heard,
        )
