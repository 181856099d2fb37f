"""The page `docs/configuration.md`, made from the models' own descriptions, ranges and defaults.

python -m roambench.experiment.reference docs/configuration.md
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from roambench.experiment.sections import Experiment
from roambench.written.expected import expected, section_at

_INTRODUCTION = """\
<!-- Made by `python -m roambench.experiment.reference docs/configuration.md`; do not edit. -->

# Experiment files

`roambench run FILE` checks the whole TOML file before anything starts and reports all mistakes at once (exit
code 2). An unknown key is a mistake. Names end in their units (`_mbit_s`: 10⁶ bits a second). Paths are
relative to the file.

`--set KEY=VALUE` overrides a key for one run: `--set learning.batch_size=16`, `--set 'systems=["mohawk"]'`.
Of two for one key the last holds.
The run folder keeps the experiment with all defaults, as `experiment.json`.
"""


def configuration_page() -> str:
    """The whole page, Markdown."""
    sections = [name for name in Experiment.model_fields if section_at(Experiment, (name,)) is not None]
    parts = [_table("Top level", Experiment, set(sections))]
    for name in sections:
        model = section_at(Experiment, (name,))
        assert model is not None
        parts.append(_table(f"`[{name}]`", model, set()))
    tables = re.sub(r"`?docs/([\w-]+)\.md`?", r"[\1](\1.md)", "\n".join(parts))  # messages name the file
    return f"{_INTRODUCTION}\n{tables}"


def _table(title: str, model: type[BaseModel], left_out: set[str]) -> str:
    head = [
        f"## {title}",
        "",
        inspect.cleandoc(model.__doc__ or ""),
        "",
        "| key | expected | default | |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *_rows(model, left_out), ""])


def _rows(model: type[BaseModel], left_out: set[str]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if name not in left_out:
            description = (field.description or "").replace("|", "\\|")
            kind = re.sub(r"^(an? |one of )", "", expected(field)).replace("true or false", "boolean")
            yield f"| `{name}` | {kind} | `{_default(field)}` | {description} |"


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        value = list(value)
    return "{}" if value == {} else json.dumps(value)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(configuration_page(), encoding="utf-8")
    else:
        print(configuration_page(), end="")
