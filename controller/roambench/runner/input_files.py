"""The files that a run's result hangs on, with their digests, and what has become of them since."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from roambench.experiment.link_model_file import link_model_path
from roambench.experiment.sections import Experiment
from roambench.learning.datasets.data_files import default_folder
from roambench.runner.foreign_code import is_needed_by_us
from roambench.runner.replayed_orders import replayed_log

#: Code has its own digests (`foreign_code`).
_CODE: Final = (".py", ".pyc", ".pyi", ".so", ".pth")
#: A folder with more files than this counts as one: with all that lies in it.
_MOST_OF_A_FOLDER: Final = 100
#: Behind the path of a folder: the names of all that lies in it and below.
_NAMES: Final = " (names of files)"
_BLOCK: Final = 1 << 20
_SYSTEM: Final = tuple(map(Path, ("/proc", "/sys", "/dev", "/etc")))


def input_files(experiment: Experiment, system: str, opened: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of each file by its absolute path: those that the experiment names, and those `opened` to make
    its learning task. A path that ends with a slash is a folder with many of them; one that ends with
    ` (names of files)` stands for the names in a folder, where a data set is all that lies in it."""
    files = {path.resolve() for path in _named(experiment, system)}
    data = Path(experiment.learning.data_path or default_folder(experiment.learning.dataset)).resolve()
    downloads = default_folder(experiment.learning.dataset).parent.resolve()
    files |= {path for path in opened if _is_input(path, (data, downloads))}
    if experiment.learning.dataset == "huggingface" and not experiment.learning.task:
        files |= {path.resolve() for path in data.rglob("*.arrow")}  # pyarrow opens them
    wholes = [] if experiment.learning.task else _whole_folders(experiment.learning.dataset, data)
    names = [f"{folder}{_NAMES}" for folder in wholes]
    for folder in sorted({path.parent for path in files}):
        mine = sorted(path for path in files if path.parent == folder)
        names += [f"{folder}/"] if len(mine) > _MOST_OF_A_FOLDER else [str(path) for path in mine]
    return {name: digest for name in names if (digest := _digest(name)) is not None}


def _whole_folders(dataset: str, data: Path) -> list[Path]:
    if dataset == "imagefolder":
        return [data / "train", data / "test"]
    if dataset == "spokendigits":
        return [data / "recordings" if (data / "recordings").is_dir() else data]
    return []


def changes(inputs: Mapping[str, str]) -> list[str]:
    """Return which of the files are not what they were, a phrase each.

    A file is not among them where its whole folder is gone: what was made of it may be kept elsewhere.
    """
    found = []
    for name, before in inputs.items():
        now = _digest(name)
        if now is None and Path(name).parent.is_dir():
            found.append(f"{name} is gone")
        elif now is not None and now != before:
            found.append(f"{name} changed")
    return found


def _named(experiment: Experiment, system: str) -> Iterator[Path]:
    if experiment.trace.file:
        yield Path(experiment.trace.file)
    if (path := link_model_path(experiment.links.model, Path())) is not None:
        yield path
    if (log := replayed_log(experiment.rounds.orders, system)) is not None:
        yield log
    for meter in experiment.local.meters.values():
        if meter.driver == "replay":
            yield Path(meter.port.partition("?")[0])


def _is_input(path: Path, data: tuple[Path, ...]) -> bool:
    """Not code, nor what Python, roambench's own needs, the system and programs' caches keep for
    themselves."""
    if path.suffix in _CODE or not path.is_file():
        return False
    if any(map(path.is_relative_to, data)):
        return True
    if any(map(path.is_relative_to, _SYSTEM)) or any(map(path.is_relative_to, _caches())):
        return False
    for site in _sites():
        if path.is_relative_to(site):
            top = path.relative_to(site).parts[0]
            return not top.endswith((".dist-info", ".egg-info")) and not is_needed_by_us(top)
    return not any(path.is_relative_to(place) for place in _standard_library())


@cache
def _sites() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")})


@cache
def _standard_library() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")})


def _caches() -> Iterator[Path]:
    home = Path.home()
    yield from (home / ".cache", home / ".config", home / ".local")
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        yield Path(chosen).resolve()


def _digest(name: str) -> str | None:
    """Return the digest of a file, of all files that lie in a folder, or of the names there; None where it is
    not there or cannot be read."""
    path = Path(name)
    try:
        if name.endswith(_NAMES):
            return _digest_of_names(Path(name.removesuffix(_NAMES)))
        if not name.endswith("/"):
            return _digest_of_file(path)
        content = hashlib.sha256()
        for entry in sorted(path.iterdir()):
            if entry.is_file():
                content.update(os.fsencode(f"{entry.name} {_digest_of_file(entry)}\n"))
        return content.hexdigest()
    except OSError:
        return None


def _digest_of_names(folder: Path) -> str:
    content, entries = hashlib.sha256(), _shown(path.name for path in folder.iterdir())
    content.update(os.fsencode("\0".join(entries)))
    for entry in entries:  # the folder of a class may be a link
        for place, folders, files in os.walk(folder / entry):
            folders[:] = _shown(folders)
            content.update(os.fsencode("\0".join((place, *folders, *_shown(files), ""))))
    return content.hexdigest()


def _shown(names: Iterable[str]) -> list[str]:
    """Those without a dot in front, which data sets leave out."""
    return sorted(name for name in names if not name.startswith("."))


def _digest_of_file(path: Path) -> str:
    about = path.stat()
    return _hashed(str(path), about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)


@cache
def _hashed(path: str, *_version: int) -> str:
    """Each version of a file once in a process: a data set may have gigabytes."""
    content = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            content.update(block)
    return content.hexdigest()
