"""Kinds of keys that the `power` tables of several switches share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from roambench.contract.errors import ConfigError

_MOST_BYTES = 1024


def _beside_the_description(path: str, info: ValidationInfo) -> str:
    try:
        return str(Path((info.context or {}).get("folder", ""), Path(path).expanduser())) if path else ""
    except RuntimeError as error:
        raise ValueError(str(error)) from None


#: Where a switch answers. With brackets an IPv6 address.
Address = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9a-fA-F:.]{2,45}\])(:[0-9]{1,5})?$",
        json_schema_extra={"expected": "HOST or HOST:PORT; an IPv6 address in brackets"},
    ),
]
#: A file with one line that is secret; read when the switch is used, not before.
SecretFile = Annotated[
    str,
    AfterValidator(_beside_the_description),
    Field(json_schema_extra={"expected": "a path; of ~NAME, NAME has to have a home on this machine"}),
]


def secret(file: str, key: str) -> str:
    """The first line of the file that `key` names; ConfigError without one, or where others may read it. ""
    for no file."""
    if not file:
        return ""
    try:
        if Path(file).stat().st_mode & 0o077:
            raise ConfigError([f"power.{key}: {file}: others may read it: chmod 600 {shlex.quote(file)}"])
        with Path(file).open("rb") as opened:
            line = opened.read(_MOST_BYTES).decode("utf-8-sig").partition("\n")[0].rstrip("\r")
    except OSError as error:
        raise ConfigError([f"power.{key}: {file} cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"power.{key}: {file} is not UTF-8 text"]) from None
    if not line or not line.isprintable():
        raise ConfigError([f"power.{key}: {file}: expected one line of printable text"])
    return line
