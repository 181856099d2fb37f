"""A file of the user's as tables, unchecked but for being TOML; and what a table is checked by."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from roambench.contract.errors import ConfigError


def read_toml(path: Path, name: str = "") -> dict[str, Any]:
    """Read a TOML file. ConfigError for one that cannot be read, is no UTF-8 text or no TOML; the error names
    it `name` (default: the file's without its folder)."""
    name = name or path.name
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{name}: not UTF-8 text (byte {error.start})"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name}: not TOML: {error}"]) from None


class Section(BaseModel):
    """A table of a user's file: strict, frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
