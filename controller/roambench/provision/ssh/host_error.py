"""Errors that say why a host could not do what it was asked, and what a person can do about it."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path
from typing import Final

import paramiko
from fabric import Connection
from paramiko.ssh_exception import IncompatiblePeer, NoValidConnectionsError

from roambench.contract.errors import LinkError
from roambench.contract.printable import printable
from roambench.provision.bench import Host
from roambench.provision.ssh.known_hosts import HostKeyRefusedError, fingerprint

_NO_ANSWER: Final = "is it powered, booted and on this network?"
_FORWARDING: Final = "AllowTcpForwarding in the jump host's sshd_config"
_PROHIBITED: Final = 1  # RFC 4254: SSH_OPEN_ADMINISTRATIVELY_PROHIBITED


class HostError(LinkError):
    """One host's trouble: `reason` says what is the matter, in one line, `next_action` what to do."""

    def __init__(self, host: str, reason: str, next_action: str = "") -> None:
        self.host, self.reason, self.next_action = host, printable(reason), next_action
        super().__init__(f"{host}: {self.reason}" + (f"; {next_action}" if next_action else ""))


class SudoRefused(HostError):
    """The host answers, and lets its login user do nothing as root."""


class ConnectionLost(HostError):
    """The connection ended before the command did, or before its exit code came."""


def connection_error(
    host: Host, connection: Connection, error: Exception, recorded: tuple[str, Path], *, gate: bool
) -> HostError:
    """The failure of a login over `connection`, in words: to a `gate`, a jump host on the way to `host`, or
    to `host` itself, whose key is `recorded` by that name in that file."""
    if not gate:
        return HostError(host.name, *_explained(connection, error, recorded, host.ssh_key, "the bench file"))
    reason, next_action = _explained(connection, error, recorded, None, "~/.ssh/config")
    return HostError(host.name, f"its jump host: {reason}", next_action)


def unreached(host: Host, gate: Connection, connection: Connection, error: Exception) -> HostError:
    """`gate` was reached and `connection` was not, through it."""
    reason = f"its jump host {gate.host} cannot reach {_where(connection)}: "
    if isinstance(error, paramiko.ChannelException):
        next_action = _FORWARDING if error.code == _PROHIBITED else _NO_ANSWER
        return HostError(host.name, reason + error.text, next_action)
    return HostError(host.name, reason + (str(error) or type(error).__name__), _NO_ANSWER)


def _explained(
    connection: Connection,
    error: Exception,
    recorded: tuple[str, Path],
    key: Path | None,
    described_in: str,
) -> tuple[str, str]:
    """Reason and next action."""
    where = _where(connection)
    if isinstance(error, NoValidConnectionsError):  # one per address of the name: the first tells enough
        error = next(iter(error.errors.values()))
    match error:
        case paramiko.BadHostKeyException():
            return (
                f"another host key than recorded: {fingerprint(error.key)} instead of "
                f"{fingerprint(error.expected_key)}",
                "if its SD card was flashed again: "
                f"{shlex.join(['ssh-keygen', '-R', recorded[0], '-f', str(recorded[1])])}; "
                "if not, someone is in between",
            )
        case HostKeyRefusedError():
            return error.reason, error.next_action
        case paramiko.PasswordRequiredException():
            return "the SSH key has a passphrase", "ssh-add"
        case IncompatiblePeer():
            reason = f"{where} takes no algorithm that roambench has ({str(error).rpartition('(')[2]}"
            return reason, "allow one more in its sshd_config (KexAlgorithms, Ciphers, MACs)"
        case paramiko.BadAuthenticationType() if "publickey" not in error.allowed_types:
            return f"{where} takes no keys", "PubkeyAuthentication yes in its sshd_config"
        case (
            paramiko.AuthenticationException()
            | paramiko.SSHException(args=("No authentication methods available",))
        ):
            return (
                f"{connection.user} may not log in with {key or 'any key of yours'}",
                f"ssh-copy-id {f'-i {shlex.quote(str(key))} ' if key else ''}-p {connection.port} "
                f"{connection.user}@{connection.host}",
            )
        case socket.gaierror() if "%" in connection.host:
            interface = connection.host.rpartition("%")[2]
            return f"{connection.host}: this machine has no interface {interface}", f"see {described_in}"
        case socket.gaierror():
            return f"{connection.host}: no such name", f"check its address in {described_in}"
        case TimeoutError():
            return f"no answer from {where}", _NO_ANSWER
        case ConnectionRefusedError():
            return f"{where} refuses", "is its SSH server enabled and on this port?"
        case OSError():
            return f"{where}: {error.strerror or error}", _NO_ANSWER
        case _:
            return (
                f"no proper SSH server answers at {where} ({error or type(error).__name__})",
                "is it still booting? try again in a minute",
            )


def _where(connection: Connection) -> str:
    return f"{connection.host} port {connection.port}"
