"""A spare takes the place of a board: its name, certificate and settings, and what it had not handed over."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision import layout
from roambench.provision.agent_asks import ask_agent
from roambench.provision.belongings import LEFT_BEHIND, Belongings, from_card
from roambench.provision.bench import Bench, Host
from roambench.provision.certificates import BenchAuthority
from roambench.provision.host_error import HostError
from roambench.provision.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.inventory import load_bench
from roambench.provision.meter_map import read_map
from roambench.provision.provisioning import Tell, provision
from roambench.provision.replacements import Replacement, read_replacements, write_replacements

T = TypeVar("T")

_MOVE_S: Final = 600.0
#: A file that is among a spare's state until it has all of the board's.
_MOVING: Final = ".moving-in"
#: More than the largest spool, models and unsent records, compressed.
_MOST_STATE_BYTES: Final = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Replaced:
    """`note` tells what moved and what is lost."""

    host: Host
    note: str


def replace_board(bench: Bench, board: Host, spare: Host, tell: Tell, card: Path | None = None) -> Replaced:
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
    belongings = from_card(board.name, card) if card is not None else _belongings(bench, board)
    machine_id = belongings.machine_id or _proven_machine(bench, board)
    _must(on_hosts(bench, [spare], lambda link: _hand_over(link, belongings.state)))
    write_replacements(bench.state_dir, {**replaced, board.name: Replacement(spare.name, machine_id)})
    authority = BenchAuthority(bench.state_dir)
    for name in (board.name, spare.name):
        authority.revoke_name(name, f"{board.name} is played by {spare.name}")
    after = load_bench(bench.file)
    player = after.host(board.name)
    (done,) = provision(after, [player], tell=tell)
    if done.failed:
        raise FleetError(
            f"{board.name} is played by {spare.name}, which has what it left, but is not provisioned: "
            f"{done.reason}; {done.next_action}; then "
            f"roambench fleet provision {bench.file} --only {board.name}"
        )
    return Replaced(player, belongings.note)


def take_back(bench: Bench, board: str) -> str:
    """The board itself is in service again, once it is provisioned; returns the spare's name."""
    replaced = read_replacements(bench.state_dir)
    if board not in replaced:
        raise ConfigError([f"{board}: no spare plays it"])
    spare = replaced.pop(board).spare
    write_replacements(bench.state_dir, replaced)
    BenchAuthority(bench.state_dir).revoke_name(board, f"{spare} no longer plays {board}")
    return spare


def _belongings(bench: Bench, board: Host) -> Belongings:
    """The board's belongings; FleetError where it is there and cannot hand them over: they would be lost."""
    (there,) = on_hosts(bench, [board], lambda link: None)
    if there.failed:
        return Belongings(
            "", b"", f"{board.name}: {there.reason}: what it had not handed over is lost with its card"
        )
    (found,) = on_hosts(bench, [board], _pack)
    if found.value is None:
        raise FleetError(
            f"{board.name} answers, but cannot hand over what it has: {found.reason}; mend that, or switch "
            "it off and replace it without (what its card has is then lost, unless --card names it)"
        )
    return found.value


def _pack(link: HostLink) -> Belongings:
    machine_id = link.must("cat /etc/machine-id").decode().strip()
    link.run(f"systemctl disable --now {layout.UNIT}", root=True, timeout_s=_MOVE_S)
    if link.run(f"test -d {layout.STATE}", root=True).exit_code != 0:
        return Belongings(machine_id, b"", f"{link.host.name} had no state to hand over")
    state = link.must(
        f"tar -C {layout.STATE} --exclude ./{LEFT_BEHIND} -czf - .",
        root=True,
        timeout_s=_MOVE_S,
        most_bytes=_MOST_STATE_BYTES,
    )
    return Belongings(machine_id, state, f"{link.host.name} handed over {len(state) / 1e6:.1f} MB of state")


def _proven_machine(bench: Bench, board: Host) -> str:
    """Machine id of the board when its meter was proven; "" if that never was."""
    proven = read_map(bench)
    entry = proven.entry(board.name) if proven is not None else None
    return entry.machine_id if entry is not None else ""


def _is_free(link: HostLink) -> None:
    """HostError if the spare holds records that nobody has fetched, or takes part in a run."""
    if link.run(f"test -S {layout.CTL_SOCKET}", root=True).exit_code != 0:
        # What is there while a board's state is moved in is the board's, who has it still.
        found = link.run(f"test -e {layout.STATE}/{_MOVING} || ls -A {layout.STATE}/unsent", root=True)
        if found.out.strip():
            raise HostError(
                link.host.name,
                "it has records of runs, and no agent runs that could hand them over",
                f"roambench fleet provision {link.bench.file} --only {link.host.name}, then fleet fetch",
            )
        return
    status = ask_agent(link, "status")
    if status.get("run"):
        raise HostError(link.host.name, f"it takes part in run {status['run']}", "wait for its end")
    if status.get("unsent_runs"):
        raise HostError(link.host.name, "it has records of runs", f"roambench fleet fetch {link.bench.file}")


def _hand_over(link: HostLink, state: bytes) -> None:
    """Nothing of the spare's own life remains; provisioning starts its agent again, as the board's."""
    folder = shlex.quote(layout.STATE)
    link.must(
        f"systemctl disable --quiet --now {layout.UNIT} 2> /dev/null; "
        f"rm -rf {folder} && mkdir -p {folder} && touch {folder}/{_MOVING}",
        root=True,
        timeout_s=_MOVE_S,
    )
    if state:
        # An agent leaves files and folders; a board that was taken over may leave links, devices and set-uid.
        link.must(
            f"umask 027; tar -C {folder} --no-same-owner --no-same-permissions -xzf - && "
            f"find {folder} ! -type f ! -type d -delete",
            root=True,
            stdin=state,
            timeout_s=_MOVE_S,
        )
    # Only where the spare was provisioned before is there such a user; provisioning sees to the rest.
    owner = shlex.quote(f"{layout.USER}:{layout.USER}")
    link.run(f"chown -R {owner} {folder}", root=True, timeout_s=_MOVE_S)
    link.must(f"rm -f {folder}/{_MOVING}", root=True)


def _must(outcomes: list[HostOutcome[T]]) -> None:
    for one in outcomes:
        if one.failed:
            raise FleetError(
                f"{one.host.name}: {one.reason}" + (f"; {one.next_action}" if one.next_action else "")
            )
