"""A bench's own record of its hosts' SSH keys: the first one seen is trusted, another one is an error."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko

from roambench.contract.errors import IdentityError
from roambench.provision.inventory import Bench, Host

_SSH_PORT: Final = 22


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """The file, in OpenSSH's format; several processes may use it at once."""

    path: Path

    @classmethod
    def of(cls, bench: Bench) -> KnownHosts:
        return cls(bench.state_dir / "known_hosts")

    def keys(self) -> paramiko.HostKeys:
        """What is recorded; IdentityError where the file cannot be read."""
        keys = paramiko.HostKeys()
        try:
            keys.load(str(self.path))
        except FileNotFoundError:
            pass
        except (OSError, paramiko.SSHException) as error:
            raise IdentityError(f"{self.path}: host keys cannot be read: {error}") from None
        return keys

    def record(self, name: str, key: paramiko.PKey) -> None:
        """Trust `key` from now on; paramiko.BadHostKeyException if another was recorded meanwhile."""
        with self._alone():
            known = self.keys().lookup(name)
            if known is not None:
                if known.get(key.get_name()) != key:
                    raise paramiko.BadHostKeyException(name, key, next(iter(known.values())))
                return
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{name} {key.get_name()} {key.get_base64()}\n")
                file.flush()
                os.fsync(file.fileno())

    def forget(self, name: str) -> bool:
        """Trust the next key of this host, whatever it is; False if none was recorded."""
        with self._alone():
            keys = self.keys()
            if keys.lookup(name) is None:
                return False
            del keys[name]
            fresh = self.path.with_suffix(".new")
            keys.save(str(fresh))
            fresh.chmod(0o600)
            fresh.replace(self.path)
            return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class TrustOnFirstUse(paramiko.MissingHostKeyPolicy):
    """Records the key of a host that has none recorded. A changed key never gets here."""

    def __init__(self, known: KnownHosts) -> None:
        self._known = known

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        self._known.record(hostname, key)


def known_name(host: Host) -> str:
    """How OpenSSH writes the host in this file."""
    return host.address if host.ssh_port == _SSH_PORT else f"[{host.address}]:{host.ssh_port}"


def fingerprint(key: paramiko.PKey) -> str:
    """As `ssh-keygen -l` shows it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"
