"""The spares that stand in for dead boards: kept in the bench's state folder, because its description is
people's.

A board that was replaced keeps its name, slot and tags, and is reached, logged in to and metered where the
spare is; the spare's own name is out of service until the replacement is taken back. Meters that hang on the
spare hang on the board then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from roambench.contract.errors import ConfigError, FleetError
from roambench.contract.json_values import from_file
from roambench.contract.whole_file import write_whole
from roambench.provision.bench import METER_LINK, NEIGHBOUR_LINK, Host

FILE = "replaced.json"


@dataclass(frozen=True, slots=True)
class Replacement:
    """`spare` plays the board, and says that it is the machine `machine_id`, if that is known.

    A run that is going on would take another machine of the same name for a cloned card.
    """

    spare: str
    machine_id: str = ""


def read_replacements(state_dir: Path) -> dict[str, Replacement]:
    """By board; ConfigError for a file that is none."""
    path = state_dir / FILE
    return from_file(dict[str, Replacement], path) if path.exists() else {}


def write_replacements(state_dir: Path, replaced: Mapping[str, Replacement]) -> None:
    """Whole or not at all; FleetError where it cannot be written."""
    path = state_dir / FILE
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        write_whole(
            path, json.dumps({board: asdict(one) for board, one in sorted(replaced.items())}, indent=2)
        )
    except OSError as error:
        raise FleetError(f"{path}: cannot be written: {error.strerror}") from None


def standing_in(hosts: Sequence[Host], replaced: Mapping[str, Replacement]) -> list[Host]:
    """The hosts in service. ConfigError for names that the description no longer has."""
    known = {host.name: host for host in hosts}
    problems = [
        f"{FILE}: {board} is replaced by {one.spare}: no host is called {name!r}"
        for board, one in replaced.items()
        for name in (board, one.spare)
        if name not in known
    ]
    if problems:
        raise ConfigError(problems)
    played = {one.spare: board for board, one in replaced.items()}
    in_service = [host for host in hosts if host.name not in played]
    return [_rewired(_played(host, known, replaced.get(host.name)), played) for host in in_service]


def _played(board: Host, known: Mapping[str, Host], by: Replacement | None) -> Host:
    """`board` as a spare plays it, or itself."""
    if by is None:
        return board
    spare = known[by.spare]
    port = spare.meter.port
    if port == NEIGHBOUR_LINK.format(spare.name):  # its reader knows it by the name that is in service
        port = NEIGHBOUR_LINK.format(board.name)
    meter = replace(spare.meter, port=port)
    return replace(
        spare, name=board.name, slot=board.slot, tags=board.tags, meter=meter, machine_id=by.machine_id
    )


def _rewired(host: Host, played: Mapping[str, str]) -> Host:
    """`host` with its meter on the same machine as before, also where that plays a board now; on itself,
    where that was the board that it plays."""
    meter = host.meter
    reader = played.get(meter.host, meter.host)
    if reader == host.name:
        port = METER_LINK if meter.port == NEIGHBOUR_LINK.format(host.name) else meter.port
        return replace(host, meter=replace(meter, host="", port=port))
    return replace(host, meter=replace(meter, host=reader))
