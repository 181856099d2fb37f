"""Generators of synthetic movement, one file per model; the table loads them late."""

from __future__ import annotations

from typing import Final

from roambench.mobility.catalogue import LateTable
from roambench.mobility.walks.generator import Generator

GENERATORS: Final = LateTable(
    what="trace generator",
    group="roambench.generators",
    row=Generator,
    own={"city": "roambench.mobility.walks.city:CITY"},
)
