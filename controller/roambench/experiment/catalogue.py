"""The tables that `roambench list` prints, by the word that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table, first_sentence

#: "module:attribute" of each, imported when it is asked for.
TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "algorithms": "roambench.systems.catalogue:SYSTEMS",
        "decentralised": "roambench.systems.peers:PEER_SYSTEMS",
        "codecs": "roambench.learning.codecs.catalogue:CODECS",
        "datasets": "roambench.learning.datasets.catalogue:DATASETS",
        "local": "roambench.learning.local_algorithms:LOCAL_ALGORITHMS",
        "models": "roambench.learning.models.catalogue:MODELS",
        "partitions": "roambench.learning.partitions:PARTITIONS",
        "meters": "roambench.meters.catalogue:METERS",
        "profiles": "roambench.emulation.profiles:PROFILES",
        "readers": "roambench.mobility.readers:READERS",
        "generators": "roambench.mobility.walks:GENERATORS",
        "switches": "roambench.provision.power.table:SWITCHES",
    }
)


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """A line of `roambench list`."""

    name: str
    description: str  # one line


def table(kind: str) -> Table[Any]:
    """The table that `roambench list` calls `kind`."""
    module, _, attribute = TABLES[kind].partition(":")
    found = getattr(import_module(module), attribute)
    assert isinstance(found, Table)
    return found


def rows(kind: str) -> list[CatalogueRow]:
    """The rows of a table, sorted by name. A row of another package that cannot be used says so."""
    chosen = table(kind)
    described = []
    for name in chosen.names():
        try:
            described.append(CatalogueRow(name, _description(chosen.load(name))))
        except ConfigError as error:
            described.append(CatalogueRow(name, "; ".join(error.problems)))
    return described


def _description(row: Any) -> str:
    """The row's own summary, else the first sentence of its docstring."""
    for attribute in ("summary", "description"):
        text = getattr(row, attribute, None)
        if isinstance(text, str) and text:
            return text
    return first_sentence(row)
