"""`roambench fleet logs`, `exec` and `reboot`: what one would do on every host by hand."""

from __future__ import annotations

import codecs
import io
import sys
from threading import Lock
from typing import Annotated, Final, TextIO

import typer

from roambench.contract.errors import RoambenchError
from roambench.controller.commands.fleet_options import BenchArgument, LimitOption, OnlyOption

#: Letters of a line; what is longer is printed in several.
_LONGEST_LINE: Final = 65536

WaitOption = Annotated[
    float, typer.Option("--wait", min=0.0, metavar="S", help="How long to wait for whoever uses the bench.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("logs")(logs)
    app.command("exec")(execute)
    app.command("reboot")(reboot_hosts)


def logs(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100_000, help="Of every host.")] = 20,
    since: Annotated[str, typer.Option(help='As journalctl has it: "10 min ago", "2026-03-01".')] = "",
) -> None:
    """Print what the agents wrote to their journals, the host's name before every line."""
    from rich.console import Console

    from roambench.controller.commands.outcome_table import outcome_table
    from roambench.provision.hosts import on_hosts
    from roambench.provision.inventory import load_bench
    from roambench.provision.journal_lines import journal
    from roambench.provision.printable import printable

    loaded = load_bench(bench)
    outcomes = on_hosts(loaded, loaded.only(only or (), limit), lambda link: journal(link, lines, since))
    for one in outcomes:
        for line in one.value or ():
            print(f"{one.host.name}: {printable(line)}")
    failed = [one for one in outcomes if one.failed]
    if failed:
        Console(highlight=False, stderr=True).print(
            outcome_table(f"{loaded.name}: no logs", "lines", failed, str), markup=False
        )
        raise typer.Exit(1)


def execute(
    bench: BenchArgument,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Put -- before it.")],
    only: OnlyOption = None,
    limit: LimitOption = None,
    root: Annotated[bool, typer.Option("--root", help="With sudo.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1.0, metavar="S", help="For each host.")
    ] = 60.0,
) -> None:
    """Run a shell command on every host: `fleet exec BENCH --only rack1 -- uptime`.

    Prints what it says as it comes, the host's name before every line; exit code 1 if it failed anywhere.
    """
    from roambench.provision.channel import ending
    from roambench.provision.hosts import HostLink, on_hosts
    from roambench.provision.inventory import load_bench

    loaded = load_bench(bench)
    line = " ".join(command)
    lock = Lock()

    def run(link: HostLink) -> int:
        out, err = (_Lines(link.host.name, file, lock) for file in (sys.stdout, sys.stderr))
        try:
            return link.stream(line, out.take, err.take, root=root, timeout_s=timeout_s)
        finally:
            out.end()
            err.end()

    try:
        outcomes = on_hosts(loaded, loaded.only(only or (), limit), run)
    except _Unwritten as unwritten:
        if isinstance(unwritten.error, BrokenPipeError):
            raise unwritten.error from None
        raise RoambenchError(f"the output cannot be written: {unwritten.error.strerror}") from None
    bad = 0
    for one in outcomes:
        if one.value is None:
            why = "; ".join(filter(None, (one.reason, one.next_action)))
            print(f"{one.host.name}: {why}", file=sys.stderr)
        elif one.value:
            print(f"{one.host.name}: {ending(one.value)}", file=sys.stderr)
        bad += one.value != 0
    if bad:
        raise typer.Exit(1)


class _Unwritten(BaseException):
    """Our own output cannot be written: as with Ctrl-C, no host need go on."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class _Lines:
    """Prints one of a host's outputs to `file`, the host's name before every line; `lock` is all hosts'."""

    def __init__(self, host: str, file: TextIO, lock: Lock) -> None:
        self._host, self._file, self._lock = host, file, lock
        self._decoder = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder("utf-8")(errors="replace"), translate=True
        )
        self._begun = ""  # of a line whose end has not come yet

    def take(self, piece: bytes) -> None:
        *lines, self._begun = (self._begun + self._decoder.decode(piece)).split("\n")
        if len(self._begun) > _LONGEST_LINE:
            lines.append(self._begun)
            self._begun = ""
        self._print(lines)

    def end(self) -> None:
        *lines, last = (self._begun + self._decoder.decode(b"", final=True)).split("\n")
        self._print([*lines, last] if last else lines)

    def _print(self, lines: list[str]) -> None:
        from roambench.provision.printable import printable

        text = "".join(f"{self._host}: {printable(line)}\n" for line in lines)
        try:
            with self._lock:
                self._file.write(text)
                self._file.flush()
        except OSError as error:
            raise _Unwritten(error) from None


def reboot_hosts(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    back_s: Annotated[
        float,
        typer.Option("--back-within", min=0.0, metavar="S", help="Wait so long for them; 0: do not wait."),
    ] = 180.0,
    wait_s: WaitOption = 0.0,
    during_run: Annotated[
        bool, typer.Option("--during-run", help="Even if somebody's run uses the bench.")
    ] = False,
) -> None:
    """Reboot hosts and wait until they are back."""
    from rich.console import Console

    from roambench.controller.commands.bench_in_hand import in_hand
    from roambench.controller.commands.outcome_table import outcome_table
    from roambench.provision.hosts import on_hosts
    from roambench.provision.inventory import load_bench
    from roambench.provision.rebooting import Rebooted, reboot

    def told(done: Rebooted) -> str:
        return "asked to" if done.back_after_s is None else f"{done.back_after_s:.0f} s"

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    with in_hand(loaded, "reboot", wait_s, during_run=during_run):
        outcomes = on_hosts(loaded, hosts, lambda link: reboot(link, back_s), at_once=max(1, len(hosts)))
    table = outcome_table(f"{loaded.name}: rebooted", "back after", outcomes, told)
    Console(highlight=False).print(table, markup=False)
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)
