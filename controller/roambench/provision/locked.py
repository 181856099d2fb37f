"""The packages that boards install, to the last dependency and to the last byte: a requirements file with
digests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError

#: In the source tree; made by `make lock`.
LOCK: Final = "boards.txt"
_PIN: Final = re.compile(r"([a-z0-9-]+)==\S+")
_DIGEST: Final = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def read_lock(path: Path) -> dict[str, str]:
    """By package, what pip is to be asked for: its version and the digests of all its files.

    ConfigError for every line that is neither such a requirement nor a comment, and for one without a digest.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from None
    found: dict[str, str] = {}
    problems = []
    number = 0
    for entry in re.split(r"(?<!\\)\n", text):
        number, line = number + 1 + entry.count("\n"), number + 1
        pin, *digests = entry.replace("\\\n", " ").split() or ["#"]
        if pin.startswith("#"):
            continue
        if (name := _PIN.fullmatch(pin)) and digests and all(map(_DIGEST.fullmatch, digests)):
            found[name[1]] = " ".join((pin, *digests))
        else:
            problems.append(f"{path}:{line}: expected NAME==VERSION --hash=sha256:..., got {entry[:60]!r}")
    if problems:
        raise ConfigError(problems)
    return found
