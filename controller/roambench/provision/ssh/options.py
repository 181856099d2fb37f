"""The way on which OpenSSH would reach a host: what `ssh -G` makes of the user's and the system's
configuration.

Every word of those files counts as it does for `ssh` itself, since it is `ssh` that reads them: Include,
Match, patterns, tokens. The bench's own user, port and key go before them, roambench's defaults after them.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import socket
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko

from roambench.provision.bench import DEFAULT_USER
from roambench.provision.ssh.known_hosts import entry_of, known_name

_PATIENCE_S: Final = 20.0
_CONFIGS: Final = ("~/.ssh/config", "/etc/ssh/ssh_config")
_AGENT: Final = "SSH_AUTH_SOCK"
_TOKEN: Final = re.compile("%([%CdhijkLlnpru])")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_STDIN: Final = "/dev/stdin"  # ssh closes every descriptor but the first three


class NoOptionsError(Exception):
    """OpenSSH cannot tell how to reach a host: `reason`, and what to do about it."""

    def __init__(self, reason: str, next_action: str) -> None:
        self.reason, self.next_action = reason, next_action
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class TheirKeys:
    """The answers of the user's own known_hosts files about a host: keys that it may have, and those that no
    host may have any more. `file` is the first one that names the host."""

    file: Path | None
    trusted: tuple[paramiko.PKey, ...] = ()
    revoked: tuple[paramiko.PKey, ...] = ()


@dataclass(frozen=True, slots=True)
class SshOptions:
    """One host's. `jumps` are OpenSSH's words for jump hosts in their order; `known_as` is the name under
    which known_hosts files list it (HostKeyAlias, or its address and port). `identities_only`: of the keys in
    the SSH agent, which listens at `agent_socket` ("": none does), only those of the files."""

    name: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    agent_socket: str
    jumps: tuple[str, ...]
    proxy_command: str
    known_as: str
    known_hosts_files: tuple[Path, ...]
    unknown_refused: bool
    tokens: Mapping[str, str]

    def proxy_line(self) -> str:
        """`proxy_command` with OpenSSH's tokens filled in; empty without one."""
        return _TOKEN.sub(lambda found: self.tokens[found[1]], self.proxy_command)

    def their_keys(self) -> TheirKeys:
        """Looked up by OpenSSH, which knows hashed names and patterns. Lines of certificate authorities are
        passed over: no host certificate is checked."""
        found: Path | None = None
        trusted: list[paramiko.PKey] = []
        revoked: list[paramiko.PKey] = []
        for file in (path for path in self.known_hosts_files if path.is_file()):
            lines = subprocess.run(
                ["ssh-keygen", "-F", self.known_as, "-f", str(file)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
            ).stdout.decode(errors="replace")
            for line in lines.splitlines():
                marked = line.startswith("@")
                entry = entry_of(line.partition(" ")[2] if marked else line)
                if entry is None or line.startswith("@cert-authority"):
                    continue
                (revoked if marked else trusted).append(entry.key)
                found = found or file
        return TheirKeys(found, tuple(trusted), tuple(revoked))


def ssh_options(name: str, user: str | None = None, port: int | None = None) -> SshOptions:
    """Return the options of `name`, which may be OpenSSH's word for a jump host ("ann@gate:2200");
    NoOptionsError."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in _asked(name, user, port).splitlines():
        keyword, _, value = line.partition(" ")
        said[keyword].append(value)

    def one(keyword: str, otherwise: str = "") -> str:
        return next(iter(said[keyword]), otherwise)

    jumps, command = one("proxyjump", "none"), one("proxycommand", "none")
    address, used_port = one("hostname", name), int(one("port", "22"))
    named, login, alias = one("host", name), one("user", DEFAULT_USER), one("hostkeyalias")
    jump = "" if jumps.lower() == "none" else jumps.rpartition("@")[2].partition(":")[0]
    tokens = _tokens(address, used_port, login, named, alias, jump)

    def path(text: str) -> Path:
        return Path(_expanded(text, tokens)).expanduser()

    return SshOptions(
        name=named,
        address=address,
        port=used_port,
        user=login,
        identity_files=tuple(map(path, said["identityfile"])),
        identities_only=one("identitiesonly", "no") == "yes",
        agent_socket=_agent_socket(one("identityagent", _AGENT), path),
        jumps=() if jumps.lower() == "none" else tuple(hop.strip() for hop in jumps.split(",")),
        proxy_command="" if command.lower() == "none" else command,
        known_as=alias or known_name(address, used_port),
        known_hosts_files=tuple(
            path(file)
            for keyword in ("userknownhostsfile", "globalknownhostsfile")
            for file in one(keyword).split()
        ),
        unknown_refused=one("stricthostkeychecking") in ("yes", "true"),
        tokens=tokens,
    )


def _tokens(address: str, port: int, user: str, name: str, alias: str, jump: str) -> dict[str, str]:
    """OpenSSH's tokens (TOKENS in ssh_config(5))."""
    here, mine = socket.gethostname(), os.environ.get("USER") or str(os.getuid())
    with suppress(KeyError):
        mine = pwd.getpwuid(os.getuid()).pw_name
    every = "".join((here, address, str(port), user, jump))
    return {
        **{"%": "%", "h": address, "n": name, "p": str(port), "r": user, "j": jump, "k": alias or name},
        **{"d": str(Path.home()), "i": str(os.getuid()), "u": mine, "l": here, "L": here.partition(".")[0]},
        "C": hashlib.sha1(every.encode(), usedforsecurity=False).hexdigest(),
    }


def _expanded(text: str, tokens: Mapping[str, str]) -> str:
    """`text` of a path with tokens and variables of the environment filled in; one that is not set stays."""
    text = _TOKEN.sub(lambda found: tokens[found[1]], text)
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), text)


def _agent_socket(said: str, path: Callable[[str], Path]) -> str:
    """Return where the agent of IdentityAgent listens: `none`, the name of a variable, or a path."""
    if said == "none":
        return ""
    if said == _AGENT or (said.startswith("$") and said[1:].isidentifier()):
        return os.environ.get(said.removeprefix("$"), "")
    return str(path(said))


def _asked(name: str, user: str | None, port: int | None) -> str:
    """Return what `ssh -G` prints. The first value of an option counts: the bench's, user's, system's,
    ours."""
    includes = [f'Include "{Path(path).expanduser()}"' for path in _CONFIGS]
    config = "\n".join([*includes, "Host *", f"User {DEFAULT_USER}", ""])
    given = [*(["-l", user] if user else []), *(["-p", str(port)] if port else [])]
    # A jump host's word may hold a user and a port, which OpenSSH takes in a destination as a URI only.
    plain = user or port or "://" in name or not ("@" in name or "[" in name or name.count(":") == 1)
    try:
        ran = subprocess.run(
            ["ssh", "-G", "-F", _STDIN, *given, "--", name if plain else f"ssh://{name}"],
            input=config.encode(),
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise NoOptionsError("this machine has no OpenSSH client", "apt-get install openssh-client") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"ssh -G {name}: {getattr(error, 'strerror', None) or 'no answer'}"
        raise NoOptionsError(reason, "look at Match and Include in ~/.ssh/config") from None
    if ran.returncode != 0:
        lines = ran.stderr.decode(errors="replace").splitlines()
        lines = [line for line in lines if not line.startswith("Pseudo-terminal")] or ["no reason given"]
        reason = next(
            (line for line in lines if " line " in line), lines[0]
        )  # file and line, if it tells them
        raise NoOptionsError(f"no way to {name}: {reason}", f"ssh -G {name} shows what OpenSSH reads")
    return ran.stdout.decode(errors="replace")
