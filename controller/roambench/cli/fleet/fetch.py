"""`roambench fleet fetch`: what hosts that missed the end of a run still have of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roambench.cli.common_options import JsonOption, WaitOption
from roambench.cli.fleet.options import (
    BenchArgument,
    DuringOption,
    LimitOption,
    OnlyOption,
)

if TYPE_CHECKING:
    from roambench.provision.fetching import Fetched
    from roambench.provision.ssh.hosts import HostLink


def fetch(
    bench: BenchArgument,
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]",
            help="Run folder to complete. Without: save what the hosts have of any run beside the bench.",
        ),
    ] = None,
    only: OnlyOption = None,
    limit: LimitOption = None,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    dead_letters: Annotated[
        bool,
        typer.Option(
            "--dead-letters",
            help="Also records that the controller or a database had refused for good: try them again.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Collect the records and the outstanding model of hosts that missed a run's end; with RUN its ledger is
    computed again. Hosts that still wait for a controller that is gone leave its run (not with --during-run
    and without RUN).

    Examples:
        roambench fleet fetch bench.toml
        roambench fleet fetch bench.toml runs/my/latest/mohawk --only pi-03
    """
    import contextlib

    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import outcome_json, outcome_table, print_rows
    from roambench.provision.claims import asked_first
    from roambench.provision.fetching import fetch_run, revive
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.journal_lines import journal
    from roambench.provision.ssh.host_error import HostError
    from roambench.provision.ssh.hosts import on_hosts
    from roambench.runner.screen import say, screen
    from roambench.runs.export import export_run
    from roambench.runs.folder import RunFolder

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    console = screen()
    if run is None:

        def save(link: HostLink) -> list[Fetched]:
            if dead_letters:
                revive(link)
            return _save_all(link, loaded.state_dir / "fetched" / link.host.name, orphans=not during_run)

        with in_hand(loaded, "fetch", wait_s, hosts=hosts, during_run=during_run):
            saved = on_hosts(loaded, hosts, asked_first(loaded, save, take=False))
        if as_json:
            print(outcome_json(saved, _fields))
        else:
            print_rows(outcome_table(f"{loaded.name}: fetched", "records", saved, _summary), console)
        if any(one.failed or any(run.trouble for run in one.value or ()) for one in saved):
            raise typer.Exit(1)
        return
    with RunFolder.open(run, write=True) as folder:
        took_part = [host for host in hosts if host.name in folder.info.device_names]

        def complete(link: HostLink) -> list[Fetched]:
            fetched = fetch_run(link, folder, dead_letters=dead_letters)
            log = folder.path / "agents" / link.host.name / "agent.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(HostError):  # the records are here: no log is no reason to fail
                lines = journal(link, 10_000, _local(folder.info.created_utc))
                log.write_text("".join(f"{line.to_text()}\n" for line in lines), encoding="utf-8")
            return [fetched]

        with in_hand(loaded, "fetch", wait_s, hosts=took_part, during_run=during_run):
            outcomes = on_hosts(loaded, took_part, complete)
        if as_json:
            print(outcome_json(outcomes, _fields))
        else:
            title = f"{loaded.name}: fetched of {folder.info.run_id}"
            print_rows(outcome_table(title, "records", outcomes, _summary), console)
        # Also without news: an earlier fetch may have been interrupted here.
        if any(one.value for one in outcomes):
            export_run(folder)
            if not as_json:
                command = f"roambench report {shlex.quote(str(run))}"
                say(console, f"{run}: ledger and tables are computed again; see {command}")
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)


def _save_all(link: HostLink, folder: Path, *, orphans: bool) -> list[Fetched]:
    from roambench.provision.fetching import Fetched, end_orphaned, save_runs

    def place(run: str, ending: str) -> Path:
        """A run's name may hold anything; the file's holds hex."""
        return folder / f"{run.encode().hex()}{ending}"

    model = end_orphaned(link, None, lambda run: place(run, ".safetensors")) if orphans else None
    saved = save_runs(link, lambda run: place(run, ".jsonl.gz"))
    return [*saved, Fetched(0, None, model)] if model is not None else saved


def _fields(fetched: list[Fetched]) -> dict[str, Any]:
    from dataclasses import asdict

    return {"fetched": [asdict(one) for one in fetched]}


def _summary(fetched: list[Fetched]) -> str:
    parts = [
        f"{one.records} in {one.place}"
        + (f" ({one.malformed} malformed lines left out)" if one.malformed else "")
        for one in fetched
        if one.place is not None
    ]
    parts += [f"not fetched: {one.trouble}" for one in fetched if one.trouble]
    parts += [f"its model in {one.model}" for one in fetched if one.model is not None]
    return ", ".join(parts) or "nothing"


def _local(utc: str) -> str:
    """Return the time as journalctl has it."""
    import datetime as dt

    return dt.datetime.fromisoformat(utc).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
