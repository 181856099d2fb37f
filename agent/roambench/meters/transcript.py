r"""Recorded meter bytes as text that people can read and edit, one chunk per line:

    # comment
    12.000<TAB>5.161,0.662,3.416,0.000\r\n

Seconds since the recording began, ascending; then the bytes: printable ASCII as it is, the rest as \r, \n,
\t, \\ or \xNN. Written where a chunk arrived, so replaying it replays its timing. A comment `# meter: DRIVER`
says whose bytes they are, with the options of its port if there were any: `# meter: smartpower3?channel=1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from roambench.contract.errors import MeterError

#: (seconds since the start, bytes)
TimedBytes = tuple[float, bytes]

_METER: Final = re.compile(r"# meter: (\S+)\s*")
_STAMP: Final = re.compile(r"\d+(\.\d{1,9})?")
_ESCAPED: Final = re.compile(r"\\(?:x([0-9a-f]{2})|([rnt\\]))")
_PLAIN: Final = re.compile(r"(?:[\x20-\x5b\x5d-\x7e]|\\x[0-9a-f]{2}|\\[rnt\\])*")
_SHORT: Final = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}
_LONG: Final = {ord(value): f"\\{key}" for key, value in _SHORT.items()}


def read_transcript(path: Path) -> list[TimedBytes]:
    """All chunks of a transcript; MeterError names file and line of what is not one."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"transcript {path}: cannot be read ({error})") from None
    chunks: list[TimedBytes] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        stamp, tab, data = line.partition("\t")
        if not tab or not _STAMP.fullmatch(stamp) or not _PLAIN.fullmatch(data):
            raise MeterError(f"transcript {path}:{number}: expected seconds, a tab and escaped bytes")
        at_s = float(stamp)
        if chunks and at_s < chunks[-1][0]:
            raise MeterError(f"transcript {path}:{number}: {stamp} s is before the line above it")
        chunks.append((at_s, _unescape(data)))
    return chunks


def recorded_meter(path: Path) -> str:
    """The meter named in the transcript's comment `# meter:`, "" without one; MeterError when it cannot be
    read."""
    try:
        with path.open(encoding="ascii") as file:
            for line in file:
                if not line.startswith("#"):
                    break
                if match := _METER.fullmatch(line.rstrip("\n")):
                    return match[1]
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"transcript {path}: cannot be read ({error})") from None
    return ""


class TranscriptWriter:
    """Writes a transcript while it is being recorded; what is written survives the writer's death."""

    def __init__(self, path: Path, comment: str) -> None:
        """Begin the file; MeterError when it exists or cannot be written."""
        try:
            self._file = path.open("x", encoding="ascii", errors="backslashreplace")
        except OSError as error:
            raise MeterError(f"transcript {path}: cannot be written ({error.strerror})") from None
        self._file.writelines(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
        self._file.flush()

    def write(self, at_s: float, data: bytes) -> None:
        """Append bytes and the second at which they came."""
        self._file.write(f"{at_s:.6f}\t{_escape(data)}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_transcript(path: Path, chunks: Iterable[TimedBytes], comment: str = "") -> None:
    """Write chunks, seconds to the microsecond; each line of `comment` becomes a comment line."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{at_s:.6f}\t{_escape(data)}" for at_s, data in chunks]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def _escape(data: bytes) -> str:
    return "".join(
        _LONG.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in data
    )


def _unescape(text: str) -> bytes:
    def byte(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _SHORT[match[2]]

    return _ESCAPED.sub(byte, text).encode("latin-1")
