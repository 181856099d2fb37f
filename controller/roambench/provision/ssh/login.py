"""Logging in to a host: with which key, by way of which jump hosts, and what each of them has to prove.

How a host is reached is OpenSSH's own reading of ~/.ssh/config (`ssh_options`); what the bench file says goes
before it.
"""

from __future__ import annotations

import base64
import logging
import shlex
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from fabric import Config, Connection, ThreadingGroup
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from roambench.contract.errors import IdentityError
from roambench.provision.bench import Bench, Host
from roambench.provision.ssh.host_error import HostError, connection_error, unreached
from roambench.provision.ssh.known_hosts import KnownHosts, TrustOnFirstUse, known_name
from roambench.provision.ssh.options import NoOptionsError, SshOptions, ssh_options

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # or its tracebacks end on the terminal

#: For each of: TCP, the banner, authentication, a channel.
CONNECT_S: Final = 10
_KEEPALIVE_S: Final = 15
_PROXY_ENDS_S: Final = 2.0
_HEADER: Final = b"openssh-key-v1\0"
_CERTIFICATE: Final = "-cert-v01@openssh.com"
#: What a file that holds no key, or one behind a passphrase, raises.
_NOT_READ: Final = (
    *(TypeError, ValueError, paramiko.SSHException),
    *(UnknownKeyType, UnsupportedAlgorithm),
)


class HostConnection(Connection):  # type: ignore[misc]
    """Fabric's connection to `bench_host`, a host of `bench`, for a lab's own tasks as for roambench's.

    It is made with a key and never with a password. It and each jump host has to have the key
    that the bench's own `known_hosts` records. The first one is recorded; where the user's known_hosts files
    know the host, it has to be theirs. `open`, and what opens it by itself (`run`, `sudo`, `put`, `get`),
    raises HostError. Each step of the way has `connect_s`.
    """

    def __init__(self, bench: Bench, host: Host, connect_s: float = CONNECT_S) -> None:
        try:
            options = ssh_options(host.address, host.ssh_user, host.ssh_port)
            way = [*_jump_hosts(options, {options.name}), options]
            super().__init__(**_fabric_words(options, connect_s))
            gates = [Connection(**_fabric_words(hop, connect_s)) for hop in way[:-1]]
        except NoOptionsError as error:
            raise HostError(host.name, error.reason, error.next_action) from None
        except ValueError as error:
            next_action = (
                f"check the address in the bench file; ssh -G {host.address} shows what OpenSSH reads"
            )
            raise HostError(host.name, f"no way to {host.address}: {error}", next_action) from None
        hops = list(zip([*gates, self], way, strict=True))
        self._set(bench=bench, bench_host=host, _hops=hops, _proxies=ExitStack())

    def open(self) -> None:
        """Log in, by way of all jump hosts; nothing if that is done already."""
        if self.is_connected:
            return
        known = KnownHosts.of(self.bench)
        before: Connection | None = None
        for connection, options in self._hops:
            if not connection.is_connected:
                with ExitStack() as stack:
                    named = connection is self and self.bench_host.ssh_key is not None
                    if named:
                        offered = _key_of(self.bench_host, options, connection, stack)
                    else:
                        offered = _identities(options, connection, stack)
                    self._login(before, connection, options, offered, known)
            before = connection
        self.transport.set_keepalive(_KEEPALIVE_S)

    def close(self) -> None:
        """Hang up, here and at the jump hosts."""
        super().close()
        for connection, _ in reversed(self._hops):
            connection.client.close()
        self._proxies.close()

    def _proxied(self, line: str) -> socket.socket:
        """A socket whose other end is a command's standard input and output."""
        ours, its = socket.socketpair()
        with its:
            command = subprocess.Popen(
                ["sh", "-c", f"exec {line}"],
                stdin=its.fileno(),
                stdout=its.fileno(),
                stderr=subprocess.DEVNULL,
            )
        self._proxies.callback(_ended, command)
        return ours

    def _login(
        self,
        before: Connection | None,
        connection: Connection,
        options: SshOptions,
        offered: dict[str, Any],
        known: KnownHosts,
    ) -> None:
        connection.connect_kwargs |= offered
        if before is not None:
            connection.connect_kwargs["sock"] = _channel(self.bench_host, before, connection)
        elif line := options.proxy_line():
            connection.connect_kwargs["sock"] = self._proxied(line)
        recorded = list((known.keys().lookup(options.known_as) or {}).values())
        theirs = options.their_keys()
        client = connection.client
        client.set_missing_host_key_policy(
            TrustOnFirstUse(known, options.known_as, theirs.revoked, strangers=not options.unknown_refused)
        )
        for key in recorded or theirs.trusted:
            if key not in theirs.revoked:
                client.get_host_keys().add(known_name(connection.host, connection.port), key.get_name(), key)
        record = known.path if recorded or theirs.file is None else theirs.file
        try:
            super(HostConnection, connection).open() if connection is self else connection.open()
            if not recorded:
                known.record(options.known_as, connection.transport.get_remote_server_key())
        except IdentityError:  # this machine's trouble, not the host's
            connection.client.close()
            raise
        except (paramiko.SSHException, EOFError, OSError, ValueError) as error:
            connection.client.close()
            gate = connection is not self
            raise connection_error(
                self.bench_host, connection, error, (options.known_as, record), gate=gate
            ) from None


@contextmanager
def logged_in(bench: Bench, host: Host, connect_s: float = CONNECT_S) -> Iterator[paramiko.Transport]:
    """The transport of a HostConnection, while it lasts; HostError."""
    with HostConnection(bench, host, connect_s) as connection:
        connection.open()
        yield connection.transport


def host_group(bench: Bench, words: Sequence[str] = ()) -> ThreadingGroup:
    """Fabric's group of the hosts that any of `words` (names, tags) means, all without words.

    For a lab's own tasks; no host is dialled yet. HostError where OpenSSH cannot tell the way to a host,
    ConfigError for unknown words.
    """
    return ThreadingGroup.from_connections([HostConnection(bench, host) for host in bench.only(words)])


def _jump_hosts(target: SshOptions, seen: set[str]) -> Iterator[SshOptions]:
    """Those of `ProxyJump`, in its order; the first of them may have jump hosts, too."""
    hops = [ssh_options(word) for word in target.jumps]
    hops = [hop for hop in hops if hop.name not in seen and hop.address != target.address]
    if hops:
        yield from _jump_hosts(hops[0], seen | {hop.name for hop in hops})
    yield from hops


def _fabric_words(options: SshOptions, connect_s: float) -> dict[str, Any]:
    """Return what Fabric's Connection is made of: nothing that it would look up itself."""
    return {
        "host": options.address,
        "user": options.user,
        "port": options.port,
        "config": Config(ssh_config=paramiko.SSHConfig()),
        "gateway": False,
        "forward_agent": False,
        "connect_timeout": connect_s,
        "connect_kwargs": dict.fromkeys(("banner_timeout", "auth_timeout", "channel_timeout"), connect_s),
    }


def _identities(options: SshOptions, connection: Connection, stack: ExitStack) -> dict[str, Any]:
    # As OpenSSH has it, a key that is named for all hosts need not be there.
    files = [file for file in options.identity_files if file.exists()]
    keys = files if options.identities_only else None
    _hold(options, connection, stack, keys)
    return {"key_filename": list(map(str, files)), "allow_agent": True, "look_for_keys": False}


def _hold(options: SshOptions, connection: Connection, stack: ExitStack, keys: Sequence[Path] | None) -> bool:
    """Let `connection` use the keys and certificates in the agent, only those of these files unless None,
    until `stack` ends; return whether there are any."""
    held = HeldKeys(options.agent_socket, keys)
    stack.callback(held.close)
    connection.client._agent = held  # paramiko itself would ask SSH_AUTH_SOCK's, for all it has
    return bool(held.get_keys())


def _ended(command: subprocess.Popen[bytes]) -> None:
    command.terminate()
    try:
        command.wait(_PROXY_ENDS_S)
    except subprocess.TimeoutExpired:
        command.kill()
        command.wait()


def _channel(host: Host, before: Connection, connection: Connection) -> paramiko.Channel:
    """Through the jump host `before`, instead of a TCP connection."""
    there = (connection.host, connection.port)
    try:
        channel: paramiko.Channel = before.transport.open_channel(
            "direct-tcpip", there, ("", 0), timeout=connection.connect_timeout
        )
        return channel
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise unreached(host, before, connection, error) from None


def _key_of(host: Host, options: SshOptions, connection: Connection, stack: ExitStack) -> dict[str, Any]:
    """`ssh_key`, from its file or, if that has a passphrase, as the SSH agent holds it until `stack` ends."""
    path = host.ssh_key
    assert path is not None
    try:
        return {"pkey": paramiko.PKey.from_path(path), "allow_agent": False}
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        raise HostError(host.name, reason, "check ssh_key in the bench file") from None
    except _NOT_READ as error:
        if not _hold(options, connection, stack, [path]):
            raise _unusable(host, options, path, error) from None
        return {"allow_agent": True, "look_for_keys": False}


class HeldKeys(AgentSSH):
    """The keys of the SSH agent at a socket, only those in these files and their certificates unless that is
    None. An agent that is not there holds none."""

    def __init__(self, agent_socket: str, files: Sequence[Path] | None) -> None:
        super().__init__()
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.connect(agent_socket)
        except OSError:
            line.close()
            return
        self._connect(line)  # type: ignore[attr-defined]
        if files is not None:
            publics = [public for file in files if (public := public_key(file)) is not None]
            keys = self.get_keys()
            self._keys = tuple(key for key in keys if any(_is_of(key.blob, public) for public in publics))

    def close(self) -> None:
        """Hang up."""
        self._close()  # type: ignore[attr-defined]


def _is_of(blob: bytes, public: bytes) -> bool:
    """Return whether a key in the agent is this public key, or a certificate of it."""
    held, wanted = paramiko.Message(blob), paramiko.Message(public)
    kind, mark, _ = held.get_text().partition(_CERTIFICATE)
    if not mark:
        return blob == public
    held.get_binary()  # its nonce
    same_kind: bool = wanted.get_text() == kind
    return same_kind and held.get_remainder().startswith(wanted.get_remainder())


def _unusable(host: Host, options: SshOptions, path: Path, error: Exception) -> HostError:
    if not isinstance(error, TypeError):  # which cryptography raises for want of a passphrase
        reason = f"{path}: not a private key that can be used ({error or type(error).__name__})"
        return HostError(host.name, reason, "check ssh_key in the bench file")
    start = "" if options.agent_socket else 'eval "$(ssh-agent)"; '
    reason = "the SSH key has a passphrase, and no ssh-agent holds it"
    return HostError(host.name, reason, f"{start}ssh-add {shlex.quote(str(path))}")


def public_key(path: Path) -> bytes | None:
    """Return it as SSH writes it: of a private key's header, which no passphrase hides, of the file beside
    it, or of `path` if that is the public half itself."""
    with suppress(OSError, ValueError):
        body = b"".join(path.read_bytes().splitlines()[1:-1])
        head, mark, content = base64.b64decode(body).partition(_HEADER)
        if mark and not head:
            message = paramiko.Message(content)
            for _ in ("cipher", "key derivation", "its options"):
                message.get_string()
            if message.get_int() == 1:
                return message.get_string()
    for name in (f"{path}.pub", str(path)):
        with suppress(OSError, ValueError):
            return paramiko.pkey.PublicBlob.from_file(name).key_blob
    return None
