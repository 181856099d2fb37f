"""SSH to the hosts of a bench: all at once, with a reason and a next action for each that fails."""

from __future__ import annotations

import re
import shlex
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import paramiko

from roambench.contract.errors import RoambenchError
from roambench.contract.printable import printable
from roambench.contract.shortages import SHORTAGES
from roambench.provision.bench import Bench, Host
from roambench.provision.ssh.channel import (
    CommandResult,
    ConnectionEnded,
    Input,
    Sink,
    TooMuch,
    perform,
    stream,
)
from roambench.provision.ssh.host_error import ConnectionLost, HostError, SudoRefused
from roambench.provision.ssh.login import CONNECT_S, logged_in
from roambench.provision.ssh.script import NO_PASSWORD, READS_PASSWORD, Script, brief, shell_words
from roambench.provision.ssh.sudo import TRY, password_line

T = TypeVar("T")

_COMMAND_S: Final = 60.0
_NOT_FOUND: Final = 127
_NO_SUDO: Final = re.compile(b"^[^\n]*env: [^\n]*sudo")  # env's own complaint, in its locale's quotes
_WANTS_PASSWORD: Final = b"sudo: a password is required"
_UPLOAD_S: Final = 900.0  # a user's wheel of 64 MB over a Pi's Wi-Fi
_MOST_BYTES: Final = 64 * 2**20
#: Path, owner, mode. Into a file that this shell has made (-C), and by its descriptor: the folder may be the
#: agent's, which could lay a link in the way.
_PUT: Final = Script("""\
# write a file
path=$1 owner=$2 mode=$3 fresh=$1.new
mkdir -p -- "${path%/*}" || exit 1
umask 077; set -C; rm -f -- "$fresh"; exec 3>"$fresh"
chown -- "$owner" /proc/self/fd/3 && chmod -- "$mode" /proc/self/fd/3 && cat >&3 &&
    sync -- "$fresh" && mv -fT -- "$fresh" "$path" || { rm -f -- "$fresh"; exit 1; }""")
_NOTHING: Final = Script("true")
#: Where the file system is mounted that a path is on, or would be.
_MOUNT: Final = Script("""\
# find the file system of a folder
path=$1; until [ -e "${path:-/}" ]; do path=${path%/*}; done
df --output=target -- "${path:-/}" | tail -n 1""")


class HostLink:
    """One SSH connection. A command that fails is a `CommandResult`; a link that fails is a HostError."""

    def __init__(self, bench: Bench, host: Host, transport: paramiko.Transport) -> None:
        self.bench, self.host = bench, host
        self._transport = transport
        self._hung_up = threading.Event()
        self._sudo: tuple[str, ...] = ()  # how to become root here; () as long as that is not known
        self._barred: SudoRefused | None = None  # sudo's refusal: one wrong try is enough
        #: Who is logged in.
        self.user: str = transport.get_username() or ""

    def run(
        self,
        script: Script,
        *values: str,
        root: bool = False,
        stdin: Input = b"",
        timeout_s: float = _COMMAND_S,
        most_bytes: int = _MOST_BYTES,
    ) -> CommandResult:
        """Run `script` with `values` as "$1", "$2" and so on, as the login user or as root; `ps` shows them,
        so no secrets."""
        with self._channel(script, values, root, timeout_s) as (channel, line, first):
            try:
                ran = perform(channel, line, stdin, timeout_s=timeout_s, most_bytes=most_bytes, first=first)
            except TooMuch:
                what = f"{brief(script, values)}: more than {most_bytes / 2**20:g} MiB of output"
                raise HostError(self.host.name, what, "look at it on the host") from None
        if root and ran.exit_code == 1 and _WANTS_PASSWORD in ran.err:
            raise self._no_root()
        if root and ran.exit_code == _NOT_FOUND and _NO_SUDO.search(ran.err):
            then = "install it there, or log in as root (ssh_user)"
            raise HostError(self.host.name, "it has no sudo", then)
        return ran

    def stream(
        self,
        script: Script,
        out: Sink,
        err: Sink,
        *values: str,
        root: bool = False,
        stdin: Input | None = b"",
        timeout_s: float = _COMMAND_S,
    ) -> int:
        """Do as `run`, and pass both outputs on as they come, however much that is; returns the exit code.

        A host waits while a sink takes its time. A sink that raises a RoambenchError ends the command.
        Without `stdin` (None) its input stays open as long as the link.
        """
        with self._channel(script, values, root, timeout_s) as (channel, line, first):
            return stream(channel, line, stdin, out, err, timeout_s=timeout_s, first=first)

    @contextmanager
    def _channel(
        self, script: Script, values: tuple[str, ...], root: bool, timeout_s: float
    ) -> Iterator[tuple[paramiko.Channel, str, bytes]]:
        """A channel, the line to run on it, and what goes before its input; what goes wrong with it is a
        HostError."""
        sudo = self._way_to_root() if root and self.user != "root" else ()
        words = shell_words(script, values, root=root, sudo=sudo)
        try:
            with self._transport.open_session(timeout=CONNECT_S) as channel:
                yield channel, shlex.join(words), password_line() if sudo == READS_PASSWORD else b""
        except RoambenchError:
            raise
        except TimeoutError:
            raise HostError(
                self.host.name,
                f"{brief(script, values)}: no end within {timeout_s:g} s",
                "look at its load, try again",
            ) from None
        except paramiko.ChannelException as error:
            what = f"its SSH server opens no session: {error.text}"
            raise HostError(self.host.name, what, "see MaxSessions in its sshd_config") from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            about = "" if isinstance(error, ConnectionEnded) else f" ({error or type(error).__name__})"
            raise ConnectionLost(
                self.host.name,
                f"connection lost{about}",
                "look at its power and its network, then again",
            ) from None

    def _way_to_root(self) -> tuple[str, ...]:
        """Return sudo's words on this host. A password is given only where it wants one: a command would read
        it as its own input. HostError where it does not take it."""
        if self._barred is not None:
            raise self._barred
        if not self._sudo:
            self._sudo = NO_PASSWORD
            if password_line() and self._wants_password():
                self._sudo = READS_PASSWORD
                if (ran := self.run(TRY, root=True)).exit_code != 0:
                    what = f"sudo refuses {self.user}: {ran.why}"
                    then = "type the password again (-K), or look at its /etc/sudoers.d"
                    self._barred = SudoRefused(self.host.name, what, then)
                    raise self._barred
        return self._sudo

    def _wants_password(self) -> bool:
        try:
            self.run(TRY, root=True)
        except ConnectionLost:
            raise
        except HostError:
            return True
        return False

    def _no_root(self) -> SudoRefused:
        rule = f"{self.user} ALL=(ALL) NOPASSWD: ALL"
        what = f"{self.user} may not sudo without a password"
        return SudoRefused(self.host.name, what, f"-K asks you for it; or in /etc/sudoers.d: {rule}")

    def hang_up(self) -> None:
        """End the wait for a command on this link, and refuse others; from any
        thread."""
        self._hung_up.set()
        self._transport.close()

    @contextmanager
    def reconnected(self) -> Iterator[None]:
        """Another login in the place of a lost one; HostError once it was hung up."""
        with logged_in(self.bench, self.host) as self._transport:
            if self.hung_up:
                raise HostError(self.host.name, "interrupted")
            yield

    @property
    def hung_up(self) -> bool:
        """True if this side ended it: nothing was lost."""
        return self._hung_up.is_set()

    def must(
        self,
        script: Script,
        *values: str,
        root: bool = False,
        stdin: Input = b"",
        timeout_s: float = _COMMAND_S,
        most_bytes: int = _MOST_BYTES,
    ) -> bytes:
        """Like `run`, but a command that fails is a HostError, too; returns what it said."""
        ran = self.run(script, *values, root=root, stdin=stdin, timeout_s=timeout_s, most_bytes=most_bytes)
        if ran.exit_code != 0:
            raise HostError(self.host.name, f"{brief(script, values)}: {ran.why}")
        return ran.out

    def unheard(self, reason: str, next_action: str = "") -> HostError:
        """The error of an answer that cannot be read: that of the login itself, where it prints or refuses
        something at every command."""
        ran = self.run(_NOTHING)
        said = printable(ran.text.strip().partition("\n")[0].strip()[:80])
        if ran.exit_code != 0:
            what = f"the login of {self.user} runs no command: {said or ran.why}"
            return HostError(
                self.host.name, what, "give it a shell there (chsh -s), or take another ssh_user"
            )
        if ran.out:
            what = f"the login of {self.user} prints before every answer: {said}"
            return HostError(self.host.name, what, "have its ~/.bashrc there print on a terminal alone")
        return HostError(self.host.name, reason, next_action)

    def make_room(self, path: str) -> str:
        """Return what to do where the file system that `path` is on is full, by its mount point."""
        mount = printable(self.run(_MOUNT, path).text.strip()[:200]) or path
        return f"make room on {mount}, where {path} is (df -h; journalctl --vacuum-size=16M; apt-get clean)"

    def put(
        self,
        content: bytes | Path,
        remote: str,
        *,
        mode: int = 0o644,
        owner: str = "root:root",
    ) -> None:
        """Write a file as root, whole or not at all; a folder that is missing is made, for all to read."""
        ran = self.run(_PUT, remote, owner, f"{mode:o}", root=True, stdin=content, timeout_s=_UPLOAD_S)
        if ran.exit_code != 0:
            then = self.make_room(remote) if b"No space left" in ran.err else ""
            raise HostError(self.host.name, f"{remote}: cannot be written: {ran.why}", then)


@dataclass(frozen=True, slots=True)
class HostOutcome(Generic[T]):
    """One host's answer: a value, or a reason why not and what to do about it."""

    host: Host
    value: T | None
    reason: str = ""
    next_action: str = ""

    @property
    def failed(self) -> bool:
        """True if something went wrong on this host."""
        return bool(self.reason)


@contextmanager
def open_link(bench: Bench, host: Host) -> Iterator[HostLink]:
    """Log in to a host with a key, never with a password; HostError if that is not possible."""
    with logged_in(bench, host) as transport:
        yield HostLink(bench, host, transport)


def on_hosts(
    bench: Bench, hosts: Iterable[Host], work: Callable[[HostLink], T], *, at_once: int = 12
) -> list[HostOutcome[T]]:
    """Do `work` on all hosts, `at_once` of them at a time; one outcome per host, in their order.

    What goes wrong with a host is its outcome's reason and stops no other. Ctrl-C hangs up everywhere:
    what a host is doing it may finish, and no other command follows.
    """
    open_links: set[HostLink] = set()
    over = threading.Event()

    def on(host: Host) -> HostOutcome[T]:
        try:
            with open_link(bench, host) as link:
                open_links.add(link)
                if over.is_set():
                    raise HostError(host.name, "interrupted")
                try:
                    return HostOutcome(host, work(link))
                finally:
                    open_links.discard(link)
        except HostError as error:
            return HostOutcome(host, None, error.reason, error.next_action)
        except RoambenchError as error:
            return HostOutcome(host, None, str(error) or type(error).__name__)
        except Exception as error:  # a mistake of ours concerning one host must not cost the others
            if isinstance(error, PermissionError) or (
                isinstance(error, OSError) and error.errno in SHORTAGES
            ):
                named = f" ({error.filename})" if error.filename else ""
                reason = f"this machine, not the host, fails: {error.strerror}{named}"
                return HostOutcome(host, None, reason, SHORTAGES.get(error.errno, "whose is that (ls -l)?"))
            bug = f"this is a bug: report it{_with_traceback(bench.state_dir, host, error)}"
            return HostOutcome(host, None, f"{type(error).__name__}: {error}", bug)

    with ThreadPoolExecutor(max_workers=max(1, at_once), thread_name_prefix="host") as pool:
        try:
            return list(pool.map(on, hosts))
        except BaseException:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for link in list(open_links):
                link.hang_up()
            raise


def _with_traceback(state_dir: Path, host: Host, error: Exception) -> str:
    """Keep the traceback among what the bench records; says where, or nothing if it cannot be kept."""
    path = state_dir / f"traceback-{host.name}.txt"
    try:
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError:
        return ""
    return f" with {path}"
