"""A bench's own record of its hosts' SSH keys: the first one seen is trusted, another one is an error."""

from __future__ import annotations

import base64
import fcntl
import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from roambench.contract.errors import IdentityError
from roambench.contract.line_file import append_lines
from roambench.contract.shortages import SHORTAGES
from roambench.provision.bench import Bench

_SSH_PORT: Final = 22


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """The file, in OpenSSH's format; several processes may use it at once."""

    path: Path

    @classmethod
    def of(cls, bench: Bench) -> KnownHosts:
        """The host keys of a bench."""
        return cls(bench.state_dir / "known_hosts")

    def keys(self) -> paramiko.HostKeys:
        """The recorded host keys, malformed lines left out; IdentityError where the file cannot be read."""
        keys = paramiko.HostKeys()
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            lines = []
        except (OSError, UnicodeDecodeError) as error:
            raise IdentityError(f"{self.path}: host keys cannot be read: {error}") from None
        for entry in filter(None, map(entry_of, lines)):
            for name in entry.hostnames:
                known = keys.lookup(name)
                if known is None or entry.key.get_name() not in known:  # the first line about a host counts
                    keys.add(name, entry.key.get_name(), entry.key)
        return keys

    def record(self, name: str, key: paramiko.PKey) -> None:
        """Trust `key` from now on; paramiko.BadHostKeyException if another was recorded meanwhile,
        IdentityError where the file cannot be written."""
        with self._naming(), self._alone():
            known = self.keys().lookup(name)
            if known is not None:
                if known.get(key.get_name()) != key:
                    raise paramiko.BadHostKeyException(name, key, next(iter(known.values())))
                return
            line = f"{name} {key.get_name()} {key.get_base64()}"
            # People edit it, too: an unknown last line stays, of any kind.
            append_lines(self.path, [line], lambda last: True, mode=0o600)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"{error.filename or self.path}: this machine cannot keep the host's key: {error.strerror}"
            advice = SHORTAGES.get(error.errno, "make it writable")
            raise IdentityError(f"{what}; {advice}") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class HostKeyRefusedError(paramiko.SSHException):
    """A host's key that is not recorded may not be: `reason`, and what to do about it."""

    def __init__(self, reason: str, next_action: str) -> None:
        self.reason, self.next_action = reason, next_action
        super().__init__(reason)


class TrustOnFirstUse(paramiko.MissingHostKeyPolicy):
    """Records the key of a host that has none recorded, as `name`, unless the user's files revoke that key or
    strangers are refused altogether (StrictHostKeyChecking): HostKeyRefusedError. A changed key never gets
    here."""

    def __init__(
        self, known: KnownHosts, name: str, revoked: Collection[paramiko.PKey], *, strangers: bool
    ) -> None:
        self._known, self._name = known, name
        self._revoked, self._strangers = revoked, strangers

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Record the key of a host that was never seen before."""
        if key in self._revoked:
            reason = f"its host key {fingerprint(key)} is revoked by your known_hosts"
            raise HostKeyRefusedError(
                reason, "this key is published and proves nothing: make the host a new one"
            )
        if not self._strangers:
            reason = f"its host key {fingerprint(key)} is in none of your known_hosts (StrictHostKeyChecking)"
            address, _, port = hostname.removeprefix("[").partition("]:")
            scan = f"ssh-keyscan -p {port or _SSH_PORT} {address}"
            raise HostKeyRefusedError(reason, f"{scan} prints it: compare it, then put it there")
        self._known.record(self._name, key)


def entry_of(line: str) -> HostKeyEntry | None:
    """A line of such a file; None for a comment, a kind of key unknown to paramiko, and half a line."""
    try:
        entry = HostKeyEntry.from_line(line.strip())
    except (paramiko.SSHException, InvalidHostKey, ValueError):
        return None
    # paramiko fills up a key that is cut off with zeros.
    whole = entry is not None and entry.key is not None and entry.key.get_base64() in line.split()
    return entry if whole else None


def known_name(address: str, port: int) -> str:
    """Return how OpenSSH writes a host in this file."""
    return address if port == _SSH_PORT else f"[{address}]:{port}"


def fingerprint(key: paramiko.PKey) -> str:
    """Return the fingerprint as `ssh-keygen -l` shows it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"
