"""A spare takes the place of a board: its name, certificate and settings, and what it had not handed over."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final, TypeVar

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision import layout
from roambench.provision.agent_asks import ask_agent
from roambench.provision.certificates import BenchAuthority
from roambench.provision.host_error import HostError
from roambench.provision.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.inventory import Bench, Host, load_bench
from roambench.provision.meter_map import read_map
from roambench.provision.provisioning import Tell, provision
from roambench.provision.replacements import Replacement, read_replacements, write_replacements

T = TypeVar("T")

_MOVE_S: Final = 600.0
#: Training data comes anew over the data port; the rest is spool, finished runs' records, and models.
_LEFT_BEHIND: Final = "shards"


@dataclass(frozen=True, slots=True)
class Belongings:
    """What was found on the board: who it is and, packed, its state; "" and b"" of one that is dead."""

    machine_id: str
    state: bytes
    note: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """`note` tells what moved and what is lost."""

    host: Host
    note: str


def replace_board(bench: Bench, board: Host, spare: Host, tell: Tell) -> Replaced:
    """Let `spare` play `board` from now on. ConfigError or FleetError where it cannot.

    A board that still answers is stopped and hands over its spool, its models and its unsent records; of one
    that does not they are lost with its card. Its certificates are refused from then on.
    """
    replaced = read_replacements(bench.state_dir)
    if board == spare or spare.name in replaced:
        raise ConfigError([f"{spare.name}: is no spare: it is a board in service"])
    _must(on_hosts(bench, [spare], _is_free))
    belongings = _belongings(bench, board)
    machine_id = belongings.machine_id or _proven_machine(bench, board)
    write_replacements(bench.state_dir, {**replaced, board.name: Replacement(spare.name, machine_id)})
    after = load_bench(bench.file)
    player = after.host(board.name)
    _must(on_hosts(after, [player], lambda link: _hand_over(link, belongings.state)))
    authority = BenchAuthority(bench.state_dir)
    for name in (board.name, spare.name):
        authority.revoke_name(name, f"{board.name} is played by {spare.name}")
    _must(provision(after, [player], tell=tell))
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
    (found,) = on_hosts(bench, [board], _pack)
    if found.value is not None:
        return found.value
    return Belongings(
        "", b"", f"{board.name}: {found.reason}: what it had not handed over is lost with its card"
    )


def _pack(link: HostLink) -> Belongings:
    machine_id = link.must("cat /etc/machine-id").decode().strip()
    link.run(f"systemctl disable --now {layout.UNIT}", root=True, timeout_s=_MOVE_S)
    if link.run(f"test -d {layout.STATE}", root=True).exit_code != 0:
        return Belongings(machine_id, b"", f"{link.host.name} had no state to hand over")
    state = link.must(
        f"tar -C {layout.STATE} --exclude ./{_LEFT_BEHIND} -czf - .", root=True, timeout_s=_MOVE_S
    )
    return Belongings(machine_id, state, f"{link.host.name} handed over {len(state) / 1e6:.1f} MB of state")


def _proven_machine(bench: Bench, board: Host) -> str:
    """Who the board was when its meter was proven; "" if that never was."""
    proven = read_map(bench)
    entry = proven.entry(board.name) if proven is not None else None
    return entry.machine_id if entry is not None else ""


def _is_free(link: HostLink) -> None:
    """HostError if the spare holds records that nobody has fetched, or takes part in a run."""
    if link.run(f"test -S {layout.CTL_SOCKET}", root=True).exit_code != 0:
        return
    status = ask_agent(link, "status")
    if status.get("run"):
        raise HostError(link.host.name, f"it takes part in run {status['run']}", "wait for its end")
    if status.get("unsent_runs"):
        raise HostError(link.host.name, "it has records of runs", f"roambench fleet fetch {link.bench.file}")


def _hand_over(link: HostLink, state: bytes) -> None:
    """Nothing of the spare's own life remains; provisioning starts its agent again."""
    folder = shlex.quote(layout.STATE)
    link.must(
        f"systemctl stop {layout.UNIT} 2> /dev/null; rm -rf {folder} && mkdir -p {folder}",
        root=True,
        timeout_s=_MOVE_S,
    )
    if state:
        link.must(f"tar -C {folder} --no-same-owner -xzf -", root=True, stdin=state, timeout_s=_MOVE_S)
    # Only where the spare was provisioned before is there such a user; provisioning sees to the rest.
    owner = shlex.quote(f"{layout.USER}:{layout.USER}")
    link.run(f"chown -R {owner} {folder}", root=True, timeout_s=_MOVE_S)


def _must(outcomes: list[HostOutcome[T]]) -> None:
    for one in outcomes:
        if one.failed:
            raise FleetError(
                f"{one.host.name}: {one.reason}" + (f"; {one.next_action}" if one.next_action else "")
            )
