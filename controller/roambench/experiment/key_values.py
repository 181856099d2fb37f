"""Values of keys in an experiment as it was read, before it is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roambench.experiment.sections import Experiment
from roambench.written.expected import field_at


def value_at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at this path; None where the file leaves it out."""
    found: Any = values
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def value_used(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return what a key of a table is: its default where the file leaves it out."""
    found, field = value_at(values, path), field_at(Experiment, path)
    assert field is not None
    return field.get_default(call_default_factory=True) if found is None else found
