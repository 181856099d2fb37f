"""A bench description of found boards, for a person to go on with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from roambench.contract.counts import count
from roambench.contract.printable import printable
from roambench.extras.discovery.boards import FoundBoard
from roambench.provision.inventory.tables import NAME_PATTERN

#: The name of a board without a name.
_UNNAMED: Final = ("raspberrypi", "localhost", "")
_LONGEST: Final = 200


def drafted(
    found: Sequence[FoundBoard],
    controller: str,
    *,
    user: str | None,
    key: str,
    port: int | None = None,
    taken: Sequence[str] = (),
) -> str:
    """TOML that `fleet list` takes as it is; meters are to be filled in. `taken` are names of other hosts."""
    return "\n".join([*_lines(found, controller, user, key, port, set(taken)), ""])


def _lines(
    found: Sequence[FoundBoard],
    controller: str,
    user: str | None,
    key: str,
    port: int | None,
    taken: set[str],
) -> Iterator[str]:
    yield f"# Drafted by roambench fleet discover: {count(len(found), 'board')}."
    yield "# What every key means: inventory/README.md."
    yield ""
    yield "[controller]"
    yield f"address = {json.dumps(controller)}  # this machine, as the boards see it"
    yield ""
    yield "[defaults]"
    if user:
        yield f"ssh_user = {json.dumps(user)}"
    if port:
        yield f"ssh_port = {port}"
    if key:
        yield f"ssh_key = {json.dumps(key)}"
    yield "# Without a meter until its serial number is filled in below:"
    yield "# udevadm info /dev/ttyUSB0 | grep ID_SERIAL_SHORT on each board."
    yield 'meter.driver = "none"'
    for board in found:
        name = _name(board, taken)
        taken.add(name)
        yield ""
        yield f"# {_described(board)}"
        yield "[[hosts]]"
        yield f"name = {json.dumps(name)}"
        yield f"address = {json.dumps(board.address)}"
        if re.fullmatch(r"[A-Za-z0-9._-]{1,15}", board.interface) and board.interface != "wlan0":
            yield f"interface = {json.dumps(board.interface)}"
        yield '# meter = { driver = "smartpower2", serial = "" }'


def _name(board: FoundBoard, taken: set[str]) -> str:
    """Its own if it has one that no other has; else by its serial number or its MAC's end."""
    if board.name not in _UNNAMED and re.match(NAME_PATTERN, board.name) and board.name not in taken:
        return board.name
    mark = board.serial or next(iter(board.macs), "") or board.address.rpartition(".")[2]
    end = re.sub("[^a-z0-9]", "", mark.lower())[-6:] or "x"
    name, number = f"pi-{end}", 2
    while name in taken:
        name, number = f"pi-{end}-{number}", number + 1
    return name


def _described(board: FoundBoard) -> str:
    """For a comment of one line."""
    words = [
        board.model or "model not known",
        f"serial {board.serial}" if board.serial else "serial not known",
        *board.macs,
        f"seen by {', '.join(board.seen_by)}",
    ]
    others = [address for address in board.addresses if address != board.address]
    if others:
        words.append(f"also at {', '.join(others)}")
    if board.trouble:
        words.append(board.trouble)
    return printable("; ".join(words))[:_LONGEST]
