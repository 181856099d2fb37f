"""SSH to the hosts of a bench: all at once, with a reason and a next action for each that fails."""

from __future__ import annotations

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
from roambench.provision.ssh.host_error import ConnectionLost, HostError
from roambench.provision.ssh.login import CONNECT_S, logged_in
from roambench.provision.ssh.script import Script, brief, shell_words

T = TypeVar("T")

_COMMAND_S: Final = 60.0
_UPLOAD_S: Final = 900.0  # a user's wheel of 64 MB over a Pi's Wi-Fi
_MOST_BYTES: Final = 64 * 2**20
#: Path, owner, mode. Into a file that this shell has made (-C), and by its descriptor: the folder may be the
#: agent's, which could lay a link in the way.
_PUT: Final = Script("""\
path=$1 owner=$2 mode=$3 fresh=$1.new
mkdir -p -- "${path%/*}" || exit 1
umask 077; set -C; rm -f -- "$fresh"; exec 3>"$fresh"
chown -- "$owner" /proc/self/fd/3 && chmod -- "$mode" /proc/self/fd/3 && cat >&3 &&
    sync -- "$fresh" && mv -fT -- "$fresh" "$path" || { rm -f -- "$fresh"; exit 1; }""")


class HostLink:
    """One SSH connection. A command that fails is a `CommandResult`; a link that fails is a HostError."""

    def __init__(self, bench: Bench, host: Host, transport: paramiko.Transport) -> None:
        self.bench, self.host = bench, host
        self._transport = transport
        self._hung_up = threading.Event()
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
        with self._channel(script, values, root, timeout_s) as (channel, line):
            try:
                return perform(channel, line, stdin, timeout_s=timeout_s, most_bytes=most_bytes)
            except TooMuch:
                what = f"{brief(script, values)}: more than {most_bytes / 2**20:g} MiB of output"
                raise HostError(self.host.name, what, "look at it on the host") from None

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
        with self._channel(script, values, root, timeout_s) as (channel, line):
            return stream(channel, line, stdin, out, err, timeout_s=timeout_s)

    @contextmanager
    def _channel(
        self, script: Script, values: tuple[str, ...], root: bool, timeout_s: float
    ) -> Iterator[tuple[paramiko.Channel, str]]:
        """A channel, and the line to run on it; what goes wrong with it is a HostError."""
        words = shell_words(script, values, root=root, sudo=root and self.user != "root")
        try:
            with self._transport.open_session(timeout=CONNECT_S) as channel:
                yield channel, shlex.join(words)
        except RoambenchError:
            raise
        except TimeoutError:
            raise HostError(
                self.host.name,
                f"{brief(script, values)}: no end within {timeout_s:g} s",
                "look at its load, try again",
            ) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            about = "" if isinstance(error, ConnectionEnded) else f" ({error or type(error).__name__})"
            raise ConnectionLost(
                self.host.name,
                f"connection lost{about}",
                "look at its power and its network, then again",
            ) from None

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
            raise HostError(self.host.name, f"{remote}: cannot be written: {ran.why}", _room(ran))


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


def _room(ran: CommandResult) -> str:
    return "make room on its disk, then again" if b"No space left" in ran.err else ""
