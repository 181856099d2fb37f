"""Fetching one published file: streamed, never longer than said, kept only with the published checksum."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from roambench.contract.errors import ConfigError, DataError
from roambench.contract.whole_file import take_place

_TIMEOUT_S: Final = 30.0
_CHUNK_BYTES: Final = 1 << 20
#: A gzip file may not grow beyond this while its content is checked.
_MAX_UNPACKED_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Download:
    """A file as its publisher offers it. `max_bytes`: its size, or a bound where none is known."""

    name: str  # in the data set's folder
    url: str
    algorithm: str  # "md5" or "sha256": what its publisher or a well-known loader tells
    digest: str  # hexadecimal; "" if no trustworthy one is known, then it cannot be downloaded
    max_bytes: int
    of_content: bool = False  # the digest is of the gzip file's content


def fetch(download: Download, place: Path) -> Path:
    """Fetch the file into `place` and return its path. It gets its name only when its checksum is right.

    ConfigError if no checksum is known; DataError names the address and what went wrong. Nothing is left
    behind by a download that failed or was interrupted.
    """
    url = download.url
    if not download.digest:
        raise ConfigError([f"{url}: no checksum is known, so it is not downloaded; put it into {place}"])
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: expected an http or https address")
    target = place / download.name
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(dir=place, prefix=f".{download.name}.", suffix=".part")
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error})") from None
    unfinished = Path(path)
    try:
        with os.fdopen(handle, "wb") as file:
            found = _stream(download, file)
        if download.of_content:
            found = _digest_of_content(unfinished, download)
        if found != download.digest:
            kind = "SHA-256" if download.algorithm == "sha256" else download.algorithm.upper()
            raise DataError(f"{url}: {kind} {found[:12]}, expected {download.digest[:12]}; not kept")
        try:
            unfinished.chmod(0o644)
            take_place(unfinished, target)
        except OSError as error:
            raise DataError(f"{target}: cannot be written ({error})") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _stream(download: Download, file: IO[bytes]) -> str:
    """Write what the server sends into `file`; returns its digest."""
    url = download.url
    digest = hashlib.new(download.algorithm, usedforsecurity=False)
    size = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            promised = answer.headers.get("Content-Length", "")
            while chunk := answer.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > download.max_bytes:
                    raise DataError(f"{url}: more than the {download.max_bytes} bytes it has; not kept")
                digest.update(chunk)
                file.write(chunk)
    # A write that fails (disk full) is an OSError, too: its text says so.
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise DataError(f"{url}: cannot be downloaded ({error})") from None
    if promised.isdigit() and size < int(promised):
        raise DataError(f"{url}: cannot be downloaded (cut off after {size} of {promised} bytes)")
    return digest.hexdigest()


def _digest_of_content(path: Path, download: Download) -> str:
    digest = hashlib.new(download.algorithm, usedforsecurity=False)
    size = 0
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > _MAX_UNPACKED_BYTES:
                    raise DataError(f"{download.url}: unpacks to more than {_MAX_UNPACKED_BYTES >> 20} MiB")
                digest.update(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{download.url}: cannot be downloaded ({error})") from None
    return digest.hexdigest()
