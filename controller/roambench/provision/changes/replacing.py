"""A spare takes the place of a board: its name, certificate and settings, and what it had not handed over."""

from __future__ import annotations

import io
import shlex
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision import layout
from roambench.provision.agent_asks import ask_agent
from roambench.provision.bench import Bench, Host
from roambench.provision.certificates import BenchAuthority
from roambench.provision.claims import claim_by, keep_off
from roambench.provision.inventory.load import load_bench
from roambench.provision.inventory.replacements import Replacement, read_replacements, write_replacements
from roambench.provision.meter_map import read_map
from roambench.provision.provisioning import Report, provision
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.ssh.script import Script

T = TypeVar("T")

_MOVE_S: Final = 600.0
#: A file that is among a spare's state until it has all of the board's.
_MOVING: Final = ".moving-in"
#: More than the largest spool, models and unsent records, compressed.
_MOST_STATE_BYTES: Final = 2 * 2**30
#: Training data is sent again over the data port; the rest is spool, finished runs' records, and models.
LEFT_BEHIND: Final = "shards"
_UNSENT: Final = Script(f"test -e {layout.STATE}/{_MOVING} || ls -A {layout.STATE}/unsent")
#: A board that was never provisioned has no such unit.
_STARTED: Final = Script(
    f"! systemctl cat {layout.UNIT} > /dev/null 2>&1 || systemctl enable --quiet --now {layout.UNIT}"
)
_EMPTIED: Final = Script(
    f"systemctl disable --quiet --now {layout.UNIT} 2> /dev/null; "
    f"rm -rf {layout.STATE} && mkdir -p {layout.STATE} && touch {layout.STATE}/{_MOVING}"
)
#: An agent leaves files and folders; a board that was taken over may leave links, devices and set-uid.
_UNPACKED: Final = Script(
    f"umask 027; tar -C {layout.STATE} --no-same-owner --no-same-permissions -xzf - && "
    f"find {layout.STATE} ! -type f ! -type d -delete"
)


_ARRIVED: Final = Script(f"rm -f {layout.STATE}/{_MOVING}")


@dataclass(frozen=True, slots=True)
class Replaced:
    """`note` tells what moved and what is lost; `readers`: hosts whose agents have to read other meters
    now."""

    host: Host
    note: str
    readers: tuple[str, ...] = ()


def replace_board(
    bench: Bench, board: Host, spare: Host, report: Report, card: Path | None = None
) -> Replaced:
    """Let `spare` play `board` from now on. ConfigError or FleetError where it cannot.

    A board that still answers is stopped and hands over its spool, its models and its unsent records. Of one
    that does not, `card` is where its SD card's root file system can be read here; without, they are lost.
    The certificates of both so far are refused from then on. As long as the spare has not got it all, the
    board stays in service, and one can try again.
    """
    replaced = read_replacements(bench.state_dir)
    if board == spare or spare.name in replaced:
        raise ConfigError([f"{spare.name}: is no spare: it is a board in service"])
    _must(on_hosts(bench, [spare], _is_free))
    stopped, filled = list[Host](), list[Host]()
    try:
        belongings = from_card(board.name, card) if card is not None else _belongings(bench, board, stopped)
        machine_id = belongings.machine_id or _proven_machine(bench, board)
        filled.append(spare)
        _must(on_hosts(bench, [spare], lambda link: _hand_over(link, belongings.state)))
        write_replacements(bench.state_dir, {**replaced, board.name: Replacement(spare.name, machine_id)})
    except BaseException:
        _empty(bench, filled, report)
        _start_again(bench, stopped, report)
        raise
    on_hosts(bench, [spare], lambda link: link.run(_ARRIVED, root=True))
    authority = BenchAuthority(bench.state_dir)
    for name in (board.name, spare.name):
        authority.revoke_name(name, f"{board.name} is played by {spare.name}")
    after = load_bench(bench.file)
    player = after.host(board.name)
    readers = [name for name in readers_changed(bench, after) if name != board.name]
    (done,) = provision(after, [player], report=report, let_go=lambda host: None)
    if done.failed:
        names = ",".join([board.name, *readers])
        raise FleetError(
            f"{board.name} is played by {spare.name}, which has what it left, but is not provisioned: "
            f"{done.reason}; {done.next_action}; then "
            f"roambench fleet provision {shlex.quote(str(bench.file))} --only {names}"
        )
    return Replaced(player, belongings.note, tuple(readers))


def readers_changed(before: Bench, after: Bench) -> list[str]:
    """The hosts of `after` whose agents read meters of other hosts, and not the same as `before`."""
    meters = [
        {host.name: [(other.name, other.meter) for other in bench.read_by(host)] for host in bench.hosts}
        for bench in (before, after)
    ]
    return [name for name, read in meters[1].items() if read != meters[0].get(name, [])]


def take_back(bench: Bench, board: str) -> str:
    """The board itself is in service again, once it is provisioned; returns the spare's name."""
    replaced = read_replacements(bench.state_dir)
    if board not in replaced:
        raise ConfigError([f"{board}: no spare plays it"])
    spare = replaced.pop(board).spare
    write_replacements(bench.state_dir, replaced)
    BenchAuthority(bench.state_dir).revoke_name(board, f"{spare} no longer plays {board}")
    return spare


def _belongings(bench: Bench, board: Host, stopped: list[Host]) -> Belongings:
    """The board's belongings; FleetError where it is there and cannot hand them over: they would be lost.
    `stopped` gets the board before its agent is."""
    (there,) = on_hosts(bench, [board], lambda link: None)
    if there.failed:
        return Belongings(
            "", b"", f"{board.name}: {there.reason}: what it had not handed over is lost with its card"
        )
    (found,) = on_hosts(bench, [board], lambda link: _pack(link, stopped))
    if found.value is None:
        raise FleetError(
            f"{board.name} answers, but cannot hand over what it has: {found.reason}; mend that, or switch "
            "it off and replace it without (what its card has is then lost, unless --card names it)"
        )
    return found.value


def _pack(link: HostLink, stopped: list[Host]) -> Belongings:
    keep_off(link, claim_by(link.bench))
    machine_id = link.must(Script("cat /etc/machine-id")).decode().strip()
    stopped.append(link.host)
    link.run(Script(f"systemctl disable --now {layout.UNIT}"), root=True, timeout_s=_MOVE_S)
    if link.run(Script(f"test -d {layout.STATE}"), root=True).exit_code != 0:
        return Belongings(machine_id, b"", f"{link.host.name} had no state to hand over")
    state = link.must(
        Script(f"tar -C {layout.STATE} --exclude ./{LEFT_BEHIND} -czf - ."),
        root=True,
        timeout_s=_MOVE_S,
        most_bytes=_MOST_STATE_BYTES,
    )
    return Belongings(machine_id, state, f"{link.host.name} handed over {len(state) / 1e6:.1f} MB of state")


def _start_again(bench: Bench, stopped: list[Host], report: Report) -> None:
    """Put boards that were stopped back into service, and report where that fails, too."""
    for one in on_hosts(bench, stopped, lambda link: link.must(_STARTED, root=True, timeout_s=_MOVE_S)):
        said = "nothing was replaced: its agent is in service as before"
        if one.failed:
            words = ["roambench", "fleet", "exec", str(bench.file), "--only", one.host.name, "--root"]
            command = shlex.join([*words, "--", "systemctl", "enable", "--now", layout.UNIT])
            said = f"its agent is stopped and cannot be started again: {one.reason}; {command}"
        report(one.host, said)


def _empty(bench: Bench, filled: list[Host], report: Report) -> None:
    """Take a board's state from the spare again: it is in one place. Report where that fails."""
    for one in on_hosts(bench, filled, lambda link: link.must(_EMPTIED, root=True, timeout_s=_MOVE_S)):
        if one.failed:
            report(one.host, f"may hold a copy of the board's state: {one.reason}; replace again empties it")


def _proven_machine(bench: Bench, board: Host) -> str:
    """Machine id of the board when its meter was proven; "" if that never was."""
    proven = read_map(bench)
    entry = proven.entry(board.name) if proven is not None else None
    return entry.machine_id if entry is not None else ""


def _is_free(link: HostLink) -> None:
    """HostError if the spare is another bench's, holds records that were not fetched, or is in a run."""
    keep_off(link, claim_by(link.bench))
    if link.run(Script(f"test -S {layout.CTL_SOCKET}"), root=True).exit_code != 0:
        # What is there while a board's state is moved in is the board's, who has it still.
        found = link.run(_UNSENT, root=True)
        if found.out.strip():
            raise HostError(
                link.host.name,
                "it has records of runs, and no agent runs that could hand them over",
                f"roambench fleet provision {shlex.quote(str(link.bench.file))} "
                f"--only {link.host.name}, then fleet fetch",
            )
        return
    status = ask_agent(link, "status")
    if status.get("run"):
        raise HostError(link.host.name, f"it takes part in run {status['run']}", "wait for its end")
    if status.get("unsent_runs"):
        command = f"roambench fleet fetch {shlex.quote(str(link.bench.file))}"
        raise HostError(link.host.name, "it has records of runs", command)


def _hand_over(link: HostLink, state: bytes) -> None:
    """Nothing of the spare's own life remains; provisioning starts its agent again, as the board's."""
    link.must(_EMPTIED, root=True, timeout_s=_MOVE_S)
    if state:
        link.must(_UNPACKED, root=True, stdin=state, timeout_s=_MOVE_S)
    # Only where the spare was provisioned before is there such a user; provisioning sees to the rest.
    link.run(Script(f"chown -R {layout.USER}:{layout.USER} {layout.STATE}"), root=True, timeout_s=_MOVE_S)


def _must(outcomes: list[HostOutcome[T]]) -> None:
    for one in outcomes:
        if one.failed:
            raise FleetError(
                f"{one.host.name}: {one.reason}" + (f"; {one.next_action}" if one.next_action else "")
            )


@dataclass(frozen=True, slots=True)
class Belongings:
    """A board's identity and state, which it leaves to the spare that plays it; "" and b"" where nothing is.

    Who it was and, packed (tar.gz), its state, from itself or from its card.
    """

    machine_id: str
    state: bytes
    note: str


def from_card(board: str, card: Path) -> Belongings:
    """Off the card of a dead board, whose root file system is at `card`.

    ConfigError where that is no card of a provisioned board, or may not be read.
    """
    try:
        machine_id = _beneath(card, "etc/machine-id").read_text(encoding="ascii").strip()
        entries = sorted(_beneath(card, layout.STATE.lstrip("/")).iterdir())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for entry in entries:
                if entry.name != LEFT_BEHIND:
                    tar.add(entry, arcname=f"./{entry.name}", filter=_plain)
    except FileNotFoundError as error:
        raise ConfigError(
            [f"--card {card}: no {error.filename}: expected the root of {board}'s card, as mounted"]
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a machine id"
        raise ConfigError(
            [f"--card {card}: cannot be read: {why} (a card's files are root's: sudo)"]
        ) from None
    size = len(packed.getvalue())
    return Belongings(
        machine_id, packed.getvalue(), f"{board}'s card handed over {size / 1e6:.1f} MB of state"
    )


def _beneath(card: Path, name: str) -> Path:
    """The file on the card; ConfigError for a link on the way, which leads into this machine's own files."""
    for path in [card.joinpath(*Path(name).parts[:end]) for end in range(1, len(Path(name).parts) + 1)]:
        if path.is_symlink():
            raise ConfigError([f"--card {card}: {path} is a link: no provisioned board has one there"])
    return card / name


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders; an agent leaves nothing else, and nothing else is taken."""
    return entry if entry.isfile() or entry.isdir() else None
