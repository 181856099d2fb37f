"""`roambench fleet logs`, `exec` and `reboot`: what one would do on every host by hand."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from roambench.cli.common_options import JsonOption, WaitOption
from roambench.cli.fleet.options import (
    BenchArgument,
    DuringOption,
    LimitOption,
    OnlyOption,
    TakeOption,
)
from roambench.contract.errors import RoambenchError

if TYPE_CHECKING:
    from roambench.provision.bench import Host

#: Letters of a line; what is longer is printed in several.
_LONGEST_LINE: Final = 65536

OutOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Into a file for each host, not on the terminal."),
]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="An object of JSON for every line.")]


def logs(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="Of every host.")] = 20,
    since: Annotated[
        str, typer.Option(help='As journalctl has it: "10 min ago"; a date ("2026-03-01 08:00") is UTC.')
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="And every new line, until Ctrl-C.")] = False,
    out: OutOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Print what the agents wrote to their journals: all hosts' lines in the order of their times, in UTC.

    With --follow lines come as they are written, each when its host has sent it.

    Examples:
        roambench fleet logs bench.toml --since '10 min ago'
        roambench fleet logs bench.toml --only pi-03 --follow
    """
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.journal_lines import JournalLine, journal
    from roambench.provision.journal_lines import follow as follow_journal
    from roambench.provision.ssh.hosts import HostLink, on_hosts

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    output = _Output(out, as_json=as_json, names=_files_of(hosts, ("log",), as_json=as_json))

    def show(found: Iterable[JournalLine]) -> None:
        for one in found:
            output.write(one.host, "log", one.to_json() if as_json else one.to_text())

    def work(link: HostLink) -> list[JournalLine]:
        if not follow:
            return journal(link, lines, since)
        try:
            follow_journal(link, lines, since, show)
        except RoambenchError as error:
            _complain(str(error))
            raise
        return []

    with output:
        outcomes = on_hosts(loaded, hosts, work, at_once=len(hosts) if follow else 12)
        show(sorted(line for one in outcomes for line in one.value or ()))
    failed = [one for one in outcomes if one.failed]
    for one in failed if not follow else ():
        _complain(f"{one.host.name}: {'; '.join(filter(None, (one.reason, one.next_action)))}")
    if failed:
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
    out: OutOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Run a shell command on every host: `fleet exec BENCH --only rack1 -- uptime`.

    Prints what it says as it comes, the host's name before every line; exit code 1 if it failed anywhere. As
    JSON, a host's last object has its exit code, or the reason why there is none.

    Examples:
        roambench fleet exec bench.toml -- uptime
        roambench fleet exec bench.toml --only rack1 --root -- reboot
    """
    import json

    from roambench.provision.claims import asked_first
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.channel import ending
    from roambench.provision.ssh.hosts import HostLink, on_hosts
    from roambench.provision.ssh.script import Script

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    line = Script(" ".join(command))  # the one script that a person writes
    output = _Output(out, as_json=as_json, names=_files_of(hosts, ("out", "err"), as_json=as_json))

    def run(link: HostLink) -> int:
        said, complained = (_Lines(link.host.name, kind, output) for kind in ("out", "err"))
        try:
            return link.stream(line, said.take, complained.take, root=root, timeout_s=timeout_s)
        finally:
            said.end()
            complained.end()

    bad = 0
    with output:
        for one in on_hosts(loaded, hosts, asked_first(loaded, run, take=False) if root else run):
            bad += one.value != 0
            if as_json:
                ended = {"reason": one.reason, "next_action": one.next_action}
                found = ended if one.value is None else {"exit_code": one.value}
                output.write(one.host.name, "out", json.dumps({"host": one.host.name, **found}))
            elif one.value is None:
                _complain(f"{one.host.name}: {'; '.join(filter(None, (one.reason, one.next_action)))}")
            elif one.value:
                _complain(f"{one.host.name}: {ending(one.value)}")
    if bad:
        raise typer.Exit(1)


def _complain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _Unwritten(BaseException):
    """Our own output cannot be written: as with Ctrl-C, no host need go on."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class _Output:
    """Lines of all hosts: on the terminal, or of each host in its own file in `folder`. What an earlier
    command left there under `names` is removed: a host may fail this time.

    For several threads. As a context it turns what cannot be written into the command's error, and closes
    the files.
    """

    def __init__(self, folder: Path | None, *, as_json: bool, names: Sequence[str]) -> None:
        self.as_json, self.in_files = as_json, folder is not None
        self._names = names
        self._folder, self._lock = folder, Lock()
        self._files: dict[str, TextIO] = {}

    def __enter__(self) -> _Output:
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RoambenchError(f"{self._folder}: cannot be made: {error.strerror}") from None
            for file in (self._folder / name for name in self._names):
                try:
                    file.unlink(missing_ok=True)
                except OSError as error:
                    raise RoambenchError(f"{file}: cannot be removed: {error.strerror}") from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for file in self._files.values():
            file.close()
        if isinstance(error, _Unwritten):
            if isinstance(error.error, BrokenPipeError):
                raise error.error from None
            raise RoambenchError(f"the output cannot be written: {error.error.strerror}") from None

    def write(self, host: str, kind: str, *lines: str) -> None:
        """Whole lines; `kind` is out, err or log."""
        text = "".join(f"{line}\n" for line in lines)
        try:
            with self._lock:
                file = self._file(host, kind)
                file.write(text)
                file.flush()
        except OSError as error:
            raise _Unwritten(error) from None

    def _file(self, host: str, kind: str) -> TextIO:
        if self._folder is None:
            return sys.stderr if kind == "err" and not self.as_json else sys.stdout
        name = _file_name(host, kind, as_json=self.as_json)
        if name not in self._files:
            self._files[name] = (self._folder / name).open("w", encoding="utf-8")
        return self._files[name]


def _file_name(host: str, kind: str, *, as_json: bool) -> str:
    return f"{host}.{'jsonl' if as_json else kind}"


def _files_of(hosts: Iterable[Host], kinds: Sequence[str], *, as_json: bool) -> list[str]:
    return [_file_name(host.name, kind, as_json=as_json) for host in hosts for kind in kinds]


class _Lines:
    """One of a host's outputs (`kind`: out or err) in whole lines."""

    def __init__(self, host: str, kind: str, output: _Output) -> None:
        self._host, self._kind, self._output = host, kind, output
        self._decoder = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder("utf-8")(errors="replace"), translate=True
        )
        self._begun = ""  # of a line whose end has not come yet

    def take(self, piece: bytes) -> None:
        *lines, self._begun = (self._begun + self._decoder.decode(piece)).split("\n")
        if len(self._begun) > _LONGEST_LINE:
            lines.append(self._begun)
            self._begun = ""
        self._write(lines)

    def end(self) -> None:
        *lines, last = (self._begun + self._decoder.decode(b"", final=True)).split("\n")
        self._write([*lines, last] if last else lines)

    def _write(self, lines: list[str]) -> None:
        import json

        from roambench.contract.printable import printable

        if self._output.as_json:
            found = ({"host": self._host, "stream": self._kind, "line": line} for line in lines)
            lines = [json.dumps(one, ensure_ascii=False) for one in found]
        elif not self._output.in_files:
            lines = [f"{self._host}: {printable(line)}" for line in lines]
        self._output.write(self._host, self._kind, *lines)


def reboot_hosts(
    bench: BenchArgument,
    only: OnlyOption = None,
    limit: LimitOption = None,
    back_s: Annotated[
        float,
        typer.Option(
            "--back-within", min=0.0, metavar="S", help="Wait up to this long for them; 0: do not wait."
        ),
    ] = 180.0,
    wait_s: WaitOption = 0.0,
    during_run: DuringOption = False,
    as_json: JsonOption = False,
    take: TakeOption = False,
) -> None:
    """Reboot hosts and wait until they are back.

    Examples:
        roambench fleet reboot bench.toml
        roambench fleet reboot bench.toml --only pi-03 --back-within 300
    """
    from roambench.cli.fleet.bench_in_hand import in_hand
    from roambench.cli.fleet.outcome_table import counted, outcome_table, print_rows
    from roambench.provision.changes.rebooting import Rebooted, reboot
    from roambench.provision.claims import asked_first
    from roambench.provision.inventory.load import load_bench
    from roambench.provision.ssh.hosts import on_hosts
    from roambench.runner.screen import print_json, screen

    def describe(done: Rebooted) -> str:
        return "asked to" if done.back_after_s is None else f"{done.back_after_s:.0f} s"

    loaded = load_bench(bench)
    hosts = loaded.only(only or (), limit)
    with in_hand(loaded, "reboot", wait_s, hosts=hosts, during_run=during_run):
        work = asked_first(loaded, lambda link: reboot(link, back_s), take=take)
        outcomes = on_hosts(loaded, hosts, work, at_once=max(1, len(hosts)))
    if as_json:
        rows = [
            {
                "host": one.host.name,
                "back_after_s": one.value and one.value.back_after_s,
                "reason": one.reason,
                "next_action": one.next_action,
            }
            for one in outcomes
        ]
        print_json(rows)
    else:
        title = f"{loaded.name}: {counted('rebooted', outcomes)}"
        table = outcome_table(title, "back after", outcomes, describe)
        print_rows(table, screen())
    if any(one.failed for one in outcomes):
        raise typer.Exit(1)
