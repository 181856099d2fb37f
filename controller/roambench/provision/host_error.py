"""Why a host could not do what it was asked, and what a person can do about it."""

from __future__ import annotations

import socket

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from roambench.contract.errors import LinkError
from roambench.provision.inventory import Bench, Host
from roambench.provision.known_hosts import KnownHosts, fingerprint, known_name
from roambench.provision.printable import printable


class HostError(LinkError):
    """One host's trouble: `reason` says what is the matter, in one line, `next_action` what to do."""

    def __init__(self, host: str, reason: str, next_action: str = "") -> None:
        self.host, self.reason, self.next_action = host, printable(reason), next_action
        super().__init__(f"{host}: {self.reason}" + (f"; {next_action}" if next_action else ""))


def connection_error(bench: Bench, host: Host, error: Exception) -> HostError:
    """What an attempt to log in ended with, in words."""
    where = f"{host.address} port {host.ssh_port}"
    if isinstance(error, NoValidConnectionsError):  # one per address of the name: the first tells enough
        error = next(iter(error.errors.values()))
    match error:
        case HostError():
            return error
        case paramiko.BadHostKeyException():
            known = KnownHosts.of(bench)
            return HostError(
                host.name,
                f"another host key than recorded: {fingerprint(error.key)} instead of "
                f"{fingerprint(error.expected_key)}",
                "if its SD card was flashed anew: "
                f"ssh-keygen -R '{known_name(host)}' -f '{known.path}'; if not, someone is in between",
            )
        case paramiko.PasswordRequiredException():
            return HostError(
                host.name, "the SSH key has a passphrase", f"ssh-add {host.ssh_key or ''}".strip()
            )
        case paramiko.AuthenticationException():
            key = f"-i {host.ssh_key} " if host.ssh_key else ""
            return HostError(
                host.name,
                f"{host.ssh_user} may not log in with {host.ssh_key or 'any key of yours'}",
                f"ssh-copy-id {key}-p {host.ssh_port} {host.ssh_user}@{host.address}",
            )
        case socket.gaierror():
            return HostError(
                host.name, f"{host.address}: no such name", "check its address in the bench file"
            )
        case TimeoutError():
            return HostError(
                host.name, f"no answer from {where}", "is it powered, booted and on this network?"
            )
        case ConnectionRefusedError():
            return HostError(host.name, f"{where} refuses", "is its SSH server enabled and on this port?")
        case FileNotFoundError():
            return HostError(host.name, f"{error.filename}: no such file", "check ssh_key in the bench file")
        case OSError():
            return HostError(
                host.name, f"{where}: {error.strerror or error}", "is it powered, booted and on this network?"
            )
        case _:
            what = f"no proper SSH server answers at {where} ({error or type(error).__name__})"
            return HostError(host.name, what, "is it still booting? try again in a minute")
