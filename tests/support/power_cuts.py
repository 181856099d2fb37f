"""Power cuts of a whole program, by what it really asked of the kernel.

`strace` writes down every write, sync and rename of a program and all its children. `Disk` plays them again
and knows at any moment what a disk must have by then, because it was synced, and what it may have besides. A
cut is one state that a reboot could find.

Harder than ext4, where a synced file keeps its name, too: here names are safe when their folder was synced.
Kinder than a disk: a synced byte is never lost, folders themselves are there at once, and what is written
through memory maps is not seen (SQLite's -shm, which whoever opens the database makes anew).
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CALLS = (
    "openat,write,pwrite64,writev,pwritev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,"
    "ftruncate,truncate,link,linkat,fallocate,copy_file_range,sendfile"
)
_SECTOR_BYTES = 512
_FILE = r"\d+<((?:\\x..)+)>"
_TEXT = r'"((?:\\x..)*)"'
_PLACE = rf"(?:(?:AT_FDCWD|\d+)<((?:\\x..)+)>, )?{_TEXT}"
_LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(\(| resumed>)(.*)")


@dataclass(frozen=True)
class Call:
    """One system call on a file under the folder that is watched; `target` of a rename or link."""

    name: str
    path: str
    target: str = ""
    data: bytes = b""
    at: int = -1  # -1: behind what was written before
    flags: str = ""


def recorded(command: Sequence[str], folder: Path, trace: Path, timeout_s: float) -> list[Call]:
    """Run the command and return what it and its children did to files under `folder`, in order; links in it
    are followed once the command is done."""
    options = ["-f", "-qq", "-xx", "-y", "-s", str(2**26), "-e", "signal=none"]
    subprocess.run(
        ["strace", *options, "-e", f"trace={_CALLS}", "-o", trace, *command], check=True, timeout=timeout_s
    )
    folder = folder.resolve()
    inside = "".join(f"\\x{byte:02x}" for byte in str(folder).encode())
    with trace.open(encoding="ascii", errors="replace") as lines:
        calls = [_call(line) for line in _whole(lines) if inside in line]
    return [call for call in calls if call is not None and Path(call.path).is_relative_to(folder)]


def _whole(lines: Iterator[str]) -> Iterator[str]:
    """Calls during which another thread's call began are on two lines: they count where they end."""
    begun: dict[str, str] = {}
    for line in lines:
        if not (found := _LINE.match(line)):
            continue
        process, name, mark, rest = found.groups()
        if rest.endswith("<unfinished ...>"):
            begun[process] = f"{name}({rest.removesuffix(' <unfinished ...>')}"
        else:
            text = begun.pop(process, "") if mark != "(" else f"{name}("
            yield f"{text}{rest}"


def _call(line: str) -> Call | None:
    name, _, rest = line.partition("(")
    if re.search(r"\) += -1 ", rest):
        return None
    name = {"renameat": "rename", "renameat2": "rename", "unlinkat": "unlink", "linkat": "link"}.get(
        name, name
    )
    match name:
        case "openat":
            found = re.match(rf"{_PLACE}, ([A-Z_|0-9]+).* = {_FILE}", rest)
            return Call("open", _text(found[4]), flags=found[3]) if found else None
        case "write" | "pwrite64" if found := re.match(rf"{_FILE}, {_TEXT}, (\d+)(?:, (\d+))?\)", rest):
            return Call("write", _text(found[1]), data=_bytes(found[2]), at=int(found[4] or -1))
        case "fsync" | "fdatasync" if found := re.match(_FILE, rest):
            return Call("sync", _text(found[1]))
        case "ftruncate" if found := re.match(rf"{_FILE}, (\d+)", rest):
            return Call("truncate", _text(found[1]), at=int(found[2]))
        case "rename" | "link" if found := re.match(rf"{_PLACE}, {_PLACE}", rest):
            return Call(name, _joined(found[1], found[2]), _joined(found[3], found[4]))
        case "unlink" if found := re.match(_PLACE, rest):
            return Call("unlink", _joined(found[1], found[2]))
    if "(deleted)" in rest:
        return None
    raise ValueError(f"a call that no disk here knows: {name}({rest[:200]}")


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _text(text: str) -> str:
    return _bytes(text).decode()


def _joined(folder: str | None, name: str) -> str:
    return str(Path(_text(folder or "")) / _text(name))


@dataclass
class _File:
    now: bytearray = field(default_factory=bytearray)
    end: int | None = None  # where the next write goes that does not say; None: behind the last byte
    safe: bytes = b""
    open_writes: list[tuple[int, bytes]] = field(
        default_factory=list
    )  # offset and bytes; b"": the new length

    def write(self, at: int, data: bytes) -> None:
        self.open_writes.append((at, data))
        _apply(self.now, at, data)

    def sync(self) -> None:
        self.safe = bytes(self.now)
        self.open_writes.clear()


def _apply(content: bytearray, at: int, data: bytes) -> None:
    end = at + len(data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if data:
        content[at:end] = data
    else:
        del content[at:]


#: Names that change at once, and what they are from then on: a file, or nothing.
_Change = dict[str, _File | None]


class Disk:
    """What `calls` left, as far as they were played."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._safe_names: dict[str, _File] = {}
        self._open_names: dict[str, list[_Change]] = {}  # by folder

    def play(self, call: Call) -> None:
        file = self._names.get(call.path)
        match call.name:
            case "open":
                self._open(call)
            case "sync":
                if file is not None:
                    file.sync()
                for change in self._open_names.pop(call.path, []):
                    _rename(self._safe_names, change)
            case "write" if file is not None:
                at = call.at
                if at < 0:
                    at = len(file.now) if file.end is None else file.end
                    file.end = None if file.end is None else at + len(call.data)
                file.write(at, call.data)
            case "truncate" if file is not None:
                file.write(call.at, b"")
            case "rename" if file is not None:
                self._change({call.path: None, call.target: file})
            case "link" if file is not None:
                self._change({call.target: file})
            case "unlink" if file is not None:
                self._change({call.path: None})

    def _open(self, call: Call) -> None:
        file = self._names.get(call.path)
        if file is None:
            if "O_CREAT" not in call.flags:
                return
            file = _File()
            self._change({call.path: file})
        if "O_TRUNC" in call.flags and file.now:
            file.write(0, b"")
        if "O_RDONLY" not in call.flags:
            file.end = None if "O_APPEND" in call.flags else 0

    def _change(self, change: _Change) -> None:
        _rename(self._names, change)
        self._open_names.setdefault(str(Path(next(reversed(change))).parent), []).append(change)

    def content(self, path: str) -> bytes | None:
        """As every program sees it while the power is on."""
        file = self._names.get(path)
        return None if file is None else bytes(file.now)

    def paths(self) -> list[str]:
        return sorted(self._names)

    def cut(self, draw: random.Random, root: Path, to: Path) -> None:
        """Write one state that a reboot may find under `root` to the folder `to`.

        Of names and of writes that were not synced it holds none, all, or those before a moment, and of each
        write all or some sectors.
        """
        keep_names, keep_writes = draw.choice(("none", "all", "some")), draw.choice(("none", "all", "some"))
        names = dict(self._safe_names)
        for changes in self._open_names.values():
            for change in changes[: _how_many(draw, keep_names, len(changes))]:
                _rename(names, change)
        shutil.rmtree(to, ignore_errors=True)
        found: dict[int, bytes] = {}  # by file: all its names show the same
        for name, file in names.items():
            if id(file) not in found:
                found[id(file)] = _after(draw, file, keep_writes)
            path = to / Path(name).relative_to(root)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found[id(file)])


def _after(draw: random.Random, file: _File, keep: str) -> bytes:
    content = bytearray(file.safe)
    count = _how_many(draw, keep, len(file.open_writes))
    truncated = keep == "some" and draw.random() < 0.5
    for at, data in file.open_writes[:count]:
        if not truncated or not data:
            _apply(content, at, data)
            continue
        for start in range(0, len(data), _SECTOR_BYTES):
            if draw.random() < 0.5:
                _apply(content, at + start, data[start : start + _SECTOR_BYTES])
    return bytes(content)


def _how_many(draw: random.Random, keep: str, count: int) -> int:
    return {"none": 0, "all": count}.get(keep, draw.randint(0, count))


def _rename(names: dict[str, _File], change: _Change) -> None:
    for name, file in change.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file
