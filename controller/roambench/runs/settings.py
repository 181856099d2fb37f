"""The keys in which runs differ, and the names of a sweep's points by them: hierfavg alpha=0.1 seed=3."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roambench.contract.json_values import kept_in

#: Keys that name a run, or are of no meaning for how it ends; system and seed are those of its run.json.
_NAMING: Final = frozenset({"name", "systems", "seed", "simulated.workers"})
SYSTEM, SEED = "system", "seed"


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of an experiment, dotted as in `--set`, with their values."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{above}{name}.")
        elif not isinstance(value, Mapping):
            yield f"{above}{name}", value


def setting(system: str, seed: int, experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide how a run ends: its system, the keys of its experiment, and last its seed."""
    keys = {key: value for key, value in flat(experiment) if key not in _NAMING}
    return {SYSTEM: system, **keys, SEED: seed}


def varying(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys in which the settings differ, the system first and the seed last."""
    keys = dict.fromkeys(key for one in settings for key in one if key != SEED)
    return [key for key in (*keys, SEED) if len({repr(one.get(key)) for one in settings}) > 1]


def named(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The name of a setting by these of its keys, as short as they allow: mohawk alpha=0.1 seed=3.

    Keys that it does not set are left out, if others are left.
    """
    ends = [key.rpartition(".")[2] for key in keys]
    words = []
    for key, end in zip(keys, ends, strict=True):
        if values.get(key) is None and any(values.get(other) is not None for other in keys):
            continue
        short = end if ends.count(end) == 1 else key
        words.append(_text(values.get(key)) if key == SYSTEM else f"{short}={_text(values.get(key))}")
    return " ".join(words)


def folder_name(name: str) -> str:
    """The name as one part of a path: without what separates folders, or a crate as a zip may not have."""
    return "".join("-" if sign in "/\\" or not sign.isprintable() else sign for sign in name)


def sweep_of(run: Path) -> Path | None:
    """The folder of the sweep or the comparison whose point this run is; None for another run."""
    parts = run.resolve().parents
    of_point = len(parts) > 3 and parts[0].name == "runs" and parts[2].name == "points"
    return parts[3] if of_point else None


def names_in_sweeps(runs: Sequence[Path]) -> dict[Path, str]:
    """The names of those runs that are a sweep's, by their resolved paths: the system, the keys that
    vary in the sweep, and the seed; of several sweeps behind the sweep's."""
    sweeps = {sweep for run in runs if (sweep := sweep_of(run)) is not None}
    return {
        path: f"{sweep.name} {name}" if len(sweeps) > 1 else name
        for sweep in sorted(sweeps)
        for path, name in _names_in(sweep).items()
    }


def _names_in(sweep: Path) -> dict[Path, str]:
    found: dict[Path, dict[str, Any]] = {}
    for file in sorted(sweep.glob("points/*/runs/*/run.json")):
        info = kept_in(dict[str, Any], file) or {}
        experiment = kept_in(dict[str, Any], file.parent / "experiment.json") or {}
        found[file.parent] = setting(info.get("system", file.parent.name), info.get("seed", 0), experiment)
    keys = [key for key in varying(list(found.values())) if key not in (SYSTEM, SEED)]
    return {path: named(values, [SYSTEM, *keys, SEED]) for path, values in found.items()}


def _text(value: Any) -> str:
    """A path by its last part: folders are of no meaning elsewhere."""
    if isinstance(value, str):
        return Path(value).name if value.startswith("/") else value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
