"""Ships wheels to a host: only what it lacks, and after a broken connection only what is missing still."""

from __future__ import annotations

import re
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roambench.provision import layout
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.provision.step import Shipment, ShippedFile
from roambench.provision.wheels.turns import Turn, Turns

#: A connection that carries less than this is given up as one that stands still.
_SLOWEST_BYTES_PER_S: Final = 8_000
_LEAST_S: Final = 60.0
_REPORT_EVERY_S: Final = 15.0
_PIECE_BYTES: Final = 2**18
#: Of wheels: a link that brings so much before it is lost is tried again.
_WORTH_BYTES: Final = 2**16
#: How many bytes of what they all read each file gets, and its path.
_APPENDED: Final = Script('while [ $# -gt 0 ]; do head -c "$1" >>"$2" || exit 1; shift 2; done')
#: Empties the folder `$1` of what is not of this shipment; says what older wheelhouses have.
_BEGUN: Final = Script(f"""\
# make a folder for wheels
install -d "$1" || exit 1
find {layout.WHEELS} -mindepth 1 -maxdepth 1 -name '*.new' ! -path "$1" -exec rm -rf {{}} +
rm -f "$1/SHA256SUMS"
cd {layout.WHEELS} && grep -s . */SHA256SUMS /dev/null || true""")
#: Links files into the folder `$1`, then says what is there.
_LINKED: Final = Script("""\
# list the wheels of a build
fresh=$1; shift
for file; do ln -f "$file" "$fresh/" 2>/dev/null; done
find "$fresh" -mindepth 1 -maxdepth 1 -type f -printf '%s %f\\0'""")
_HOUSE: Final = re.compile(r"[0-9a-f]{16}")


@dataclass(slots=True)
class Sent:
    """The progress of one host; `say` gets a line now and then."""

    say: Callable[[str], None]
    total_bytes: int = 0
    there_bytes: int = 0  # when this connection began
    sent_bytes: int = 0  # over this connection; what is under way is among it
    _lost_at_bytes: int = -_WORTH_BYTES
    sending_s: float = 0.0  # over this connection, in turns that are over
    _turn_began_s: float = 0.0
    _said_s: float = field(default_factory=time.monotonic)

    def begin(self, total_bytes: int, there_bytes: int) -> None:
        """A new connection: so much of it is there already."""
        self.total_bytes, self.there_bytes, self.sent_bytes = total_bytes, there_bytes, 0
        self.sending_s, self._said_s = 0.0, time.monotonic()
        if there_bytes:
            self.say(f"wheels: {there_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB are there")

    @property
    def left_bytes(self) -> int:
        """Not sent yet."""
        return self.total_bytes - self.there_bytes - self.sent_bytes

    def worth_another(self) -> bool:
        """After a connection was lost: whether the one before had brought anything, or it was the first."""
        before, self._lost_at_bytes = self._lost_at_bytes, self.there_bytes
        return self.total_bytes > 0 and self.there_bytes - before >= _WORTH_BYTES

    @contextmanager
    def waiting_for(self, turns: Turns, turn: Turn) -> Iterator[None]:
        """Its turn, and how fast it was."""
        with turns.turn(turn):
            self._turn_began_s = time.monotonic()
            try:
                yield
            finally:
                self.sending_s += time.monotonic() - self._turn_began_s
                turn.left_bytes, turn.bytes_per_s = self.left_bytes, self.sent_bytes / self.sending_s
        self._tell(turn.bytes_per_s, turns.waiting)

    def add(self, piece_bytes: int) -> None:
        """So much more was given to the connection."""
        self.sent_bytes += piece_bytes
        self._tell(self.sent_bytes / (self.sending_s + time.monotonic() - self._turn_began_s), 0)

    def _tell(self, bytes_per_s: float, waiting: int) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s < _REPORT_EVERY_S or not self.left_bytes:
            return
        self._said_s = now_s
        done, left_s = self.total_bytes - self.left_bytes, self.left_bytes / max(bytes_per_s, 1.0)
        self.say(
            f"wheels: {done / 1e6:.0f} of {self.total_bytes / 1e6:.0f} MB, {bytes_per_s / 1e6:.2f} MB/s, "
            f"{left_s / 60:.0f} min {left_s % 60:02.0f} s left"
            + (f" once it is its turn: {waiting} other hosts wait, too" if waiting else "")
        )


def ship(link: HostLink, shipment: Shipment, sent: Sent, turns: Turns) -> None:
    """Bring the files of `shipment` into its folder's `.new`, whole by their sizes; HostError.

    What an older wheelhouse of the host has is linked, not sent. Whether contents are right is for the step's
    command to check, which has the digests. Nothing is sent but in a turn.
    """
    there = _there(link, shipment)
    known = sum(min(there.get(file.name, 0), file.size_bytes) for file in shipment.files)
    sent.begin(sum(file.size_bytes for file in shipment.files), known)
    lacking = deque(
        (file, there.get(file.name, 0)) for file in shipment.files if there.get(file.name) != file.size_bytes
    )
    turn = Turn(sent.left_bytes)
    while lacking:
        with sent.waiting_for(turns, turn):
            _send(link, shipment, lacking, sent, turn)


def _send(
    link: HostLink, shipment: Shipment, lacking: deque[tuple[ShippedFile, int]], sent: Sent, turn: Turn
) -> None:
    """Send as much of the files, each from a byte on, as goes in this turn; what is whole leaves
    `lacking`."""
    # One command for all: each `head` takes no byte more than its file's from what they all read.
    words = [
        word
        for file, begun in lacking
        for word in (str(file.size_bytes - begun), f"{shipment.folder}.new/{file.name}")
    ]
    before = sent.sent_bytes
    ran = link.run(
        _APPENDED,
        *words,
        root=True,
        stdin=_rest(shipment.archive, tuple(lacking), sent, turn),
        timeout_s=_LEAST_S + sent.left_bytes / _SLOWEST_BYTES_PER_S,
    )
    if b"No space left" in ran.err:
        raise HostError(link.host.name, "no space left on its disk", link.make_room(layout.OPT))
    if ran.exit_code != 0:
        raise HostError(link.host.name, f"wheels cannot be written: {ran.why}")
    arrived = sent.sent_bytes - before
    while lacking and (need := lacking[0][0].size_bytes - lacking[0][1]) <= arrived:
        arrived -= need
        lacking.popleft()
    if lacking and arrived:
        file, begun = lacking.popleft()
        lacking.appendleft((file, begun + arrived))


def _there(link: HostLink, shipment: Shipment) -> Mapping[str, int]:
    """Bytes of each file that are on the host. What is longer than it should be, or not ours, is removed."""
    fresh = f"{shipment.folder}.new"
    sums = link.must(_BEGUN, fresh, root=True).decode(errors="replace")
    wanted = {file.name: file for file in shipment.files}
    links = []
    for line in sums.splitlines():
        house, _, entry = line.partition("/SHA256SUMS:")
        digest, _, name = entry.partition("  ")
        file = wanted.get(name)
        if file is not None and file.sha256 == digest and _HOUSE.fullmatch(house):
            links.append(f"{layout.WHEELS}/{house}/{name}")
    there = {}
    strangers = []
    listing = link.must(_LINKED, fresh, *links, root=True).decode(errors="replace")
    for line in listing.split("\0")[:-1]:
        size, _, name = line.partition(" ")
        file = wanted.get(name)
        if file is not None and size.isascii() and size.isdecimal() and int(size) <= file.size_bytes:
            there[name] = int(size)
        else:
            strangers.append(f"{fresh}/{name}")
    if strangers:
        link.must(Script('rm -f -- "$@"'), *strangers, root=True)
    return there


def _rest(
    archive: Path, lacking: Sequence[tuple[ShippedFile, int]], sent: Sent, turn: Turn
) -> Iterator[bytes]:
    """Files of the archive one after the other, each from a byte on, until the turn is over."""
    with tarfile.open(archive) as tar:
        for file, begun in lacking:
            source = tar.extractfile(file.name)
            assert source is not None
            source.seek(begun)
            while piece := source.read(_PIECE_BYTES):
                yield piece
                sent.add(len(piece))
                if turn.over:
                    return
