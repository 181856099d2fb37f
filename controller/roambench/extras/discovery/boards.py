"""Sightings and answers put together: one board each, however many interfaces and sources it was seen by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from roambench.extras.discovery.asking import BoardAnswer
from roambench.extras.discovery.sighting import Sighting, made_by_raspberry_pi


@dataclass(frozen=True, slots=True)
class SeenAddress:
    """The answers of all sources about one address."""

    address: str
    macs: tuple[str, ...]
    names: tuple[str, ...]
    seen_by: tuple[str, ...]

    @property
    def is_raspberry_pi(self) -> bool:
        """By the makers of its interfaces."""
        return any(map(made_by_raspberry_pi, self.macs))


@dataclass(frozen=True, slots=True)
class FoundBoard:
    """`address` is that of `interface`, "" if it could not be asked; `trouble` says why."""

    name: str
    address: str
    interface: str
    addresses: tuple[str, ...]
    macs: tuple[str, ...]
    model: str
    serial: str
    seen_by: tuple[str, ...]
    trouble: str = ""


def seen_addresses(sightings: Sequence[Sighting]) -> list[SeenAddress]:
    """One for each address, in the order of the addresses."""
    by_address: dict[str, list[Sighting]] = defaultdict(list)
    for one in sightings:
        by_address[one.address].append(one)
    return [
        SeenAddress(
            address,
            macs=_distinct(one.mac for one in seen),
            names=_distinct(one.name for one in seen),
            seen_by=_distinct(one.how for one in seen),
        )
        for address, seen in sorted(by_address.items(), key=lambda item: _order(item[0]))
    ]


def boards(
    found: Sequence[SeenAddress], answers_at: Mapping[str, BoardAnswer], troubles: Mapping[str, str]
) -> list[FoundBoard]:
    """`answers_at` and `troubles` are by address.

    Two addresses are one board's if they tell the same serial number, or one tells the other's address or
    MAC as its own, or both have one MAC.
    """
    groups: list[list[SeenAddress]] = []
    for seen in found:
        same = [group for group in groups if any(_one_board(seen, other, answers_at) for other in group)]
        groups = [group for group in groups if group not in same]
        groups.append([*(one for group in same for one in group), seen])
    made = [_board(group, answers_at, troubles) for group in groups]
    return sorted(made, key=lambda board: _order(board.address))


def _one_board(one: SeenAddress, other: SeenAddress, answers_at: Mapping[str, BoardAnswer]) -> bool:
    first, second = answers_at.get(one.address), answers_at.get(other.address)
    if first is not None and second is not None and first.serial and first.serial == second.serial:
        return True
    if not set(one.macs).isdisjoint(other.macs):
        return True
    return any(
        answer is not None
        and (answer.interface_of(seen.address) or not set(seen.macs).isdisjoint(answer.macs.values()))
        for answer, seen in ((first, other), (second, one))
    )


def _board(
    group: Sequence[SeenAddress], answers_at: Mapping[str, BoardAnswer], troubles: Mapping[str, str]
) -> FoundBoard:
    answers = [answers_at[seen.address] for seen in group if seen.address in answers_at]
    answer = answers[0] if answers else BoardAnswer()
    # As the bench has it: the interface that carries models is usually the radio.
    by_radio = [seen for seen in group if answer.interface_of(seen.address).startswith("wl")]
    chosen = (by_radio or [one for one in group if one.address in answers_at] or list(group))[0]
    # Not those of bridges and tunnels, which belong to no board.
    own = [mac for link, mac in answer.macs.items() if link.startswith(("e", "w"))]
    names = _distinct((answer.name.lower(), *(name for one in group for name in one.names)))
    return FoundBoard(
        name=names[0] if names else "",
        address=chosen.address,
        interface=answer.interface_of(chosen.address),
        addresses=_distinct(one.address for one in group),
        macs=_distinct((*(mac for one in group for mac in one.macs), *own)),
        model=answer.model,
        serial=answer.serial,
        seen_by=_distinct(how for one in group for how in one.seen_by),
        trouble=""
        if answers
        else next((troubles[one.address] for one in group if one.address in troubles), ""),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values)))


def _order(address: str) -> tuple[int, int]:
    place = ip_address(address)
    return place.version, int(place)
