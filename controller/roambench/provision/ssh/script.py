"""A script for a host's shell that is a constant of the source, and the values that it gets.

No value of a file or of a host is ever part of a script's text: it is an argument, and `HostLink` quotes all
arguments in one place.
"""

from __future__ import annotations

import shlex
from typing import Final, NewType

#: A literal, or text that is made of constants while its module is imported; a test looks at every call. The
#: script's values are "$1", "$2" and "$@".
Script = NewType("Script", str)

_LONGEST = 60


#: Programs answer in English, under any locale of the login; sudo, too, which comes before the script.
_ENGLISH = ("env", "LC_ALL=C.UTF-8", "LANGUAGE=")
#: sudo that fails where it wants a password, and one that reads it from its input, also where it knew it.
NO_PASSWORD: Final = ("sudo", "-n")
READS_PASSWORD: Final = ("sudo", "-k", "-S", "-p", "")


def shell_words(
    script: Script, values: tuple[str, ...], *, root: bool, sudo: tuple[str, ...] = ()
) -> list[str]:
    """The words of a command that runs `script` with `values`, by `sudo` where the login is not root's; what
    root makes has the modes that Debian's root gives it, under any umask the login came with."""
    words = [*_ENGLISH, "sh", "-c", f"umask 022\n{script}" if root else script, "sh", *values]
    return [*_ENGLISH, *sudo, *words] if sudo else words


def brief(script: Script, values: tuple[str, ...]) -> str:
    """A script's purpose: the comment that it begins with, or its first line with its values in the place of
    "$@"."""
    line = (
        script.strip()
        .partition("\n")[0]
        .removeprefix("# ")
        .removeprefix("exec ")
        .replace('"$@"', shlex.join(values))
    )
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
