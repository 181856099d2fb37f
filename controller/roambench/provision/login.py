"""Logging in to a host: with which key, by way of which jump hosts, and what each of them has to prove.

Of the user's ~/.ssh/config and the system's, HostName, IdentityFile, ProxyJump and ProxyCommand count; user,
port and key are the bench file's.
"""

from __future__ import annotations

import base64
import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from fabric import Config, Connection
from paramiko.pkey import UnknownKeyType

from roambench.provision.bench import Bench, Host
from roambench.provision.host_error import HostError, connection_error, unreached
from roambench.provision.known_hosts import KnownHosts, TrustOnFirstUse

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # or its tracebacks end on the terminal

#: For each of: TCP, the banner, authentication, a channel.
CONNECT_S: Final = 10
_KEEPALIVE_S: Final = 15
_SSH_CONFIGS: Final = ("~/.ssh/config", "/etc/ssh/ssh_config")
_HEADER: Final = b"openssh-key-v1\0"


@contextmanager
def logged_in(bench: Bench, host: Host, connect_s: float = CONNECT_S) -> Iterator[paramiko.Transport]:
    """A connection to a host, made with a key and never with a password; HostError if that is not possible.

    It and each jump host has to have the key that the bench's own `known_hosts` records; the first one is
    recorded. Each step of the way has `connect_s`.
    """
    known = KnownHosts.of(bench)
    way = _way(host, connect_s)
    try:
        with _key_of(host) as key:
            way[-1].connect_kwargs |= {} if key is None else {"pkey": key, "key_filename": []}
            for before, connection in zip([None, *way], way, strict=False):
                if before is not None:
                    connection.connect_kwargs["sock"] = _channel(host, before, connection)
                try:
                    connection.client.get_host_keys().update(known.keys())
                    connection.client.set_missing_host_key_policy(TrustOnFirstUse(known))
                    connection.open()
                except (paramiko.SSHException, EOFError, OSError, ValueError) as error:
                    gate = connection is not way[-1]
                    raise connection_error(host, connection, error, known.path, gate=gate) from None
        transport = way[-1].transport
        transport.set_keepalive(_KEEPALIVE_S)
        yield transport
    finally:
        for connection in reversed(way):
            connection.client.close()


def _way(host: Host, connect_s: float) -> list[Connection]:
    """Connections to be opened in this order: the jump hosts, if there are any, and the host."""
    config = _ssh_config(host)
    try:
        bare = Config(ssh_config=config, overrides={"timeouts": {"connect": connect_s}})
        last = _connection(bare, host.address, user=host.ssh_user, port=host.ssh_port)
        last.connect_kwargs |= {"allow_agent": host.ssh_key is None, "look_for_keys": host.ssh_key is None}
        return [*_jump_hosts(bare, last, {last.original_host}), last]
    except (paramiko.SSHException, KeyError, ValueError) as error:
        reason = f"{' or '.join(_SSH_CONFIGS)}: no way to {host.address}: {error or type(error).__name__}"
        raise HostError(host.name, reason, f"ssh -G {host.address} shows what OpenSSH reads there") from None


def _jump_hosts(config: Config, target: Connection, seen: set[str]) -> Iterator[Connection]:
    """Those of `ProxyJump`, in its order; the first of them may have jump hosts of its own."""
    jumps = target.ssh_config.get("proxyjump", "none")
    if jumps.lower() == "none":
        target.gateway = target.ssh_config.get("proxycommand") or False
        return
    hops = [_connection(config, hop.strip()) for hop in jumps.split(",")]
    hops = [hop for hop in hops if hop.original_host not in seen and hop.host != target.host]
    if hops:
        yield from _jump_hosts(config, hops[0], seen | {hop.original_host for hop in hops})
    yield from hops


def _connection(config: Config, name: str, **where: Any) -> Connection:
    connect_s = config.timeouts.connect
    timeouts = dict.fromkeys(("banner_timeout", "auth_timeout", "channel_timeout"), connect_s)
    connection = Connection(
        name,
        config=config,
        gateway=False,
        forward_agent=False,
        connect_timeout=connect_s,
        connect_kwargs=timeouts,
        **where,
    )
    # As OpenSSH has it, a key that is named for all hosts need not be there.
    files = [Path(file).expanduser() for file in connection.connect_kwargs.get("key_filename", [])]
    connection.connect_kwargs["key_filename"] = [str(file) for file in files if file.exists()]
    return connection


def _ssh_config(host: Host) -> paramiko.SSHConfig:
    config = paramiko.SSHConfig()
    for path in (Path(name).expanduser() for name in _SSH_CONFIGS):
        try:
            if path.is_file():
                with path.open(encoding="utf-8", errors="replace") as file:
                    config.parse(file)
        except (paramiko.SSHException, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise HostError(host.name, f"{path}: {reason}", "mend it, as for ssh itself") from None
    return config


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


@contextmanager
def _key_of(host: Host) -> Iterator[paramiko.PKey | None]:
    """`ssh_key`, from its file or, if that has a passphrase, as the SSH agent holds it; None without one."""
    path, key = host.ssh_key, None
    with ExitStack() as stack:
        if path is not None:
            try:
                key = paramiko.PKey.from_path(path)
            except OSError as error:
                reason = f"{path}: {error.strerror or error}"
                raise HostError(host.name, reason, "check ssh_key in the bench file") from None
            except (
                TypeError,
                ValueError,
                paramiko.SSHException,
                UnknownKeyType,
                UnsupportedAlgorithm,
            ) as error:
                public = _public_key(path)
                agent = stack.enter_context(closing(paramiko.Agent()))
                key = next((held for held in agent.get_keys() if held.asbytes() == public), None)
                if key is None:
                    raise _unusable(host, path, error) from None
        yield key


def _unusable(host: Host, path: Path, error: Exception) -> HostError:
    if not isinstance(error, TypeError):  # which cryptography raises for want of a passphrase
        reason = f"{path}: not a private key that can be used ({error or type(error).__name__})"
        return HostError(host.name, reason, "check ssh_key in the bench file")
    start = "" if os.environ.get("SSH_AUTH_SOCK") else 'eval "$(ssh-agent)"; '
    reason = "the SSH key has a passphrase, and no ssh-agent holds it"
    return HostError(host.name, reason, f"{start}ssh-add {shlex.quote(str(path))}")


def _public_key(path: Path) -> bytes | None:
    """As SSH writes it: of a private key's header, which no passphrase hides, or of the file beside it."""
    with suppress(ValueError):
        body = b"".join(path.read_bytes().splitlines()[1:-1])
        head, mark, content = base64.b64decode(body).partition(_HEADER)
        if mark and not head:
            message = paramiko.Message(content)
            for _ in ("cipher", "key derivation", "its options"):
                message.get_string()
            if message.get_int() == 1:
                return message.get_string()
    with suppress(OSError, ValueError):
        return paramiko.pkey.PublicBlob.from_file(str(path) + ".pub").key_blob
    return None
