"""Sums of a ledger's rows by device, step, phase or outcome, with the errors that these sums share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from roambench.contract.errors import ConfigError
from roambench.energy.energy_value import Energy, covariance_j2, total
from roambench.energy.ledger import NONE, OUTCOMES, PHASES, Basis, Chosen, Codes, Kind, Ledger, Numbers

Key = Literal["device", "step", "phase", "outcome"]
KEYS: Final[tuple[Key, ...]] = get_args(Key)


@dataclass(frozen=True, slots=True)
class EnergySum:
    """Energy of the rows of a ledger that have these values, one for each key; None: no outcome."""

    values: tuple[Any, ...]
    rows: int
    energy: Energy


@dataclass(frozen=True, slots=True)
class EnergySums:
    """Energies of a ledger's rows in groups, each row in one, groups in order of first appearance.

    A meter's gain, a board's clock and so on are wrong in several groups at once: the energies are
    correlated. `total` adds them up rightly, and `covariance_j2` says what they share.
    """

    basis: Basis
    kind: Kind
    by: tuple[str, ...]
    groups: tuple[EnergySum, ...]

    @property
    def total(self) -> Energy:
        """All groups together."""
        return total(group.energy for group in self.groups)

    @property
    def covariance_j2(self) -> Numbers:
        """Covariance of the energies, J², shape (groups, groups): their squared uncertainties on the
        diagonal."""
        return covariance_j2([group.energy for group in self.groups])


def energy_sums(
    ledger: Ledger, by: Sequence[str] = (), kind: Kind = "gross", where: Mapping[str, Any] | None = None
) -> EnergySums:
    """Sum the rows by the values of `by` (of KEYS; none: all rows in one group).

    `where` leaves the rows that have that value, or one of those values, of each key in it. ConfigError for
    keys, phases, outcomes or devices that there are not.
    """
    where = where or {}
    _require_keys(by, where)
    rows = np.flatnonzero(_chosen(ledger, where))
    group, first = _groups([_codes(ledger, key)[rows] for key in by], len(rows))
    # Stable: within a group the rows keep the ledger's order, and are added in it.
    parts = np.split(rows[np.argsort(group, kind="stable")], np.cumsum(np.bincount(group))[:-1])
    order = np.argsort(first) if by else [0]
    return EnergySums(
        ledger.basis,
        kind,
        tuple(by),
        tuple(
            EnergySum(
                tuple(_value(ledger, key, int(_codes(ledger, key)[rows[first[place]]])) for key in by),
                len(parts[place]),
                ledger.total(kind, parts[place]),
            )
            for place in order
        ),
    )


def _require_keys(by: Sequence[str], where: Mapping[str, Any]) -> None:
    strange = dict.fromkeys(key for key in (*by, *where) if key not in KEYS)
    if strange or len(set(by)) < len(by):
        names = ", ".join(map(repr, strange or by))
        raise ConfigError([f"energy by {names}: expected different ones of {', '.join(KEYS)}"])


def _groups(codes: Sequence[Codes], rows: int) -> tuple[Codes, Codes]:
    """The group of every row, and the first row of every group."""
    group = np.zeros(rows, np.int64)
    for column in codes:
        _, column = np.unique(column, return_inverse=True)
        _, group = np.unique(group * (column.max(initial=0) + 1) + column, return_inverse=True)
    return group, np.unique(group, return_index=True)[1]


def _codes(ledger: Ledger, key: str) -> Codes:
    found: Codes = getattr(ledger, key)
    return found


def _names(ledger: Ledger, key: str) -> Sequence[Any] | None:
    """The values that a key's codes stand for; None: for themselves."""
    return {"device": ledger.names, "phase": PHASES, "outcome": OUTCOMES}.get(key)


def _value(ledger: Ledger, key: str, code: int) -> Any:
    names = _names(ledger, key)
    if names is None:
        return code
    return None if code == NONE else str(names[code])


def _chosen(ledger: Ledger, where: Mapping[str, Any]) -> Chosen:
    chosen = np.ones(len(ledger.gross_j), bool)
    for key, asked in where.items():
        values: list[Any] = [asked] if asked is None or isinstance(asked, str | int) else list(asked)
        names = _names(ledger, key)
        if names is None:
            chosen &= np.isin(ledger.step, values)
            continue
        known = {str(name): code for code, name in enumerate(names)} | {None: NONE}
        strange = [value for value in values if value not in known]
        if strange:
            there = ", ".join(sorted(name for name in known if name is not None))
            raise ConfigError([f"{key} {strange[0]!r}: expected one of {there}"])
        chosen &= np.isin(_codes(ledger, key), [known[value] for value in values])
    return chosen
