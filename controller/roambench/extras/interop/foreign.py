"""Hosts that another tool's file describes, as a bench description that `fleet list` takes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from roambench.contract.errors import ConfigError
from roambench.contract.printable import printable
from roambench.provision.inventory.load import load_bench


@dataclass(frozen=True, slots=True)
class ForeignHost:
    """`table` has a host's keys as in a bench description; `notes` are what could not be carried over."""

    table: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignBench:
    """The contents of a file of another tool. `left_out`: why some of its hosts are none of the bench's."""

    hosts: Sequence[ForeignHost]
    left_out: Sequence[str] = ()
    controller: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)


def bench_text(found: ForeignBench, source: str, controller: str) -> str:
    """The bench description. ConfigError with every mistake that `fleet list` would find in it."""
    if not found.hosts:
        reasons = "; ".join(found.left_out) or "it names none"
        raise ConfigError([f"{source}: expected at least one host, found none: {reasons}"])
    document = tomlkit.document()
    document.add(
        tomlkit.comment(f"Imported from {printable(source)}. What every key means: inventory/README.md.")
    )
    document.add(tomlkit.nl())
    document["controller"] = {"address": controller}
    without = any("meter" not in host.table for host in found.hosts)
    defaults = {**({"meter": {"driver": "none"}} if without else {}), **found.defaults}
    if defaults:
        document["defaults"] = defaults
    tables = tomlkit.aot()
    for host in found.hosts:
        table = tomlkit.table()
        for note in host.notes:
            table.add(tomlkit.comment(printable(note)))
        for key, value in host.table.items():
            table[key] = _inline(value) if isinstance(value, Mapping) else value
        tables.append(table)
    document["hosts"] = tables
    text = tomlkit.dumps(document)
    _check(text, source)
    return text


def _inline(values: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    table.update(values)
    return table


def _check(text: str, source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imported.toml"
        path.write_text(text, encoding="utf-8")
        try:
            load_bench(path)
        except ConfigError as error:
            at = re.compile(rf"{re.escape(path.name)}(:\d+)?: ")  # the line is none of the user's file
            named = [at.sub("", problem, count=1) for problem in error.problems]
            raise ConfigError([f"{source}, as a bench: {problem}" for problem in named]) from None
