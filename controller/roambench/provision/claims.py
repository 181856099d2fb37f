"""Claims on boards: which bench a board belongs to, kept on the board itself.

A lease (`leases`) is between the people of one bench and lies in its state folder. Two benches that describe
the same board share nothing but that board, so the claim lies there: each command that changes, loads or
switches a board asks for it first, and `--take` moves it to another bench. Which run the board is in at the
moment is known to its agent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

from roambench.contract.json_values import json_or_none
from roambench.contract.printable import printable
from roambench.provision import layout
from roambench.provision.agent_asks import AGENT, ask_agent
from roambench.provision.bench import Bench, Host
from roambench.provision.leases.lease import LeaseBook, user
from roambench.provision.leases.local_time import shown
from roambench.provision.ssh.host_error import HostError, SudoRefused
from roambench.provision.ssh.hosts import HostLink, on_hosts
from roambench.provision.ssh.script import Script

T = TypeVar("T")

#: A claim was made between the question and the answer.
OVERTAKEN: Final = 75
OVERTAKEN_WORDS: Final = ("another bench claimed it at the same moment", "ask it: roambench fleet status")
_YEAR_2096_S: Final = 4e9
_TAKE: Final = "ask its owner, or take it (roambench fleet provision --take): the owner's run hears of it"
_DIGEST: Final = f"cat {layout.CLAIM} 2>/dev/null | sha256sum | cut -c -64"
_READ: Final = Script(f"{_DIGEST}; head -c 4096 {layout.CLAIM} 2>/dev/null; true")
#: The digest of the claim as it was read, the claim to put in its place, and who takes the board from another
#: bench ("" for none): the board's agent tells that to the controller of its run.
CLAIMED: Final = Script(f"""\
# write the claim of a bench
before=$1 after=$2 taker=$3
mkdir -p {layout.ETC} && exec 9<{layout.ETC} && flock 9 || exit 1
[ "$({_DIGEST})" = "$before" ] || exit {OVERTAKEN}
new={layout.CLAIM}.new
printf '%s\\n' "$after" >$new && sync $new && mv -f $new {layout.CLAIM} || exit 1
[ -z "$taker" ] || timeout 20 {AGENT} ctl taken "$taker" >/dev/null 2>&1
exit 0""")


class ForeignBoard(HostError):
    """The board belongs to another bench."""


@dataclass(frozen=True, slots=True)
class BoardClaim:
    """A bench, by the random id that its lease file keeps and by name, who claimed for it, and since when."""

    bench_id: str
    bench: str
    owner: str
    since_s: float

    def described(self) -> str:
        """bench36 of ann@server, since Tue 2026-12-01 20:00 CET."""
        since = shown(min(max(self.since_s, 0.0), _YEAR_2096_S))
        return f"bench {self.by()}, since {since}"

    def by(self) -> str:
        """bench36 of ann@server."""
        return f"{printable(self.bench[:100])} of {printable(self.owner[:100])}"

    def to_json(self) -> str:
        """The claim as a host keeps it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class KeptClaim:
    """A claim as a host keeps it, which may be any text, "" for none, and its digest."""

    text: str
    sha256: str


def claim_by(bench: Bench) -> BoardClaim:
    """The claim that this account would make for `bench` now."""
    return BoardClaim(LeaseBook(bench.state_dir).bench_id(), bench.name, user(), time.time())


def foreign(text: str, mine: BoardClaim) -> BoardClaim | None:
    """Another bench's claim, where `text`, which a host keeps, is one."""
    found = json_or_none(BoardClaim, text.encode())
    return None if found is None or found.bench_id == mine.bench_id else found


def keep_off(link: HostLink, mine: BoardClaim, text: str | None = None) -> None:
    """ForeignBoard where the board belongs to another bench, by its claim `text` if that is known already."""
    found = foreign(read(link).text if text is None else text, mine)
    if found is not None:
        reason = f"it belongs to {found.described()}{_run(link)}"
        raise ForeignBoard(link.host.name, reason, _TAKE)


def asked_first(bench: Bench, work: Callable[[HostLink], T], *, take: bool) -> Callable[[HostLink], T]:
    """Return `work` that is begun only where the board is this bench's, no other's, or taken."""
    mine = claim_by(bench)

    def ask_and_work(link: HostLink) -> T:
        ensure_ours(link, mine, take=take)
        return work(link)

    return ask_and_work


def barred(
    bench: Bench, hosts: Sequence[Host], *, take: bool = False
) -> dict[str, ForeignBoard | SudoRefused]:
    """Ask all hosts whose they are; the errors of those that another bench has, and of those that let only
    root read it, by name. A host that does not answer is not among them: a board without power or network
    runs nothing."""
    mine = claim_by(bench)

    def ask(link: HostLink) -> ForeignBoard | SudoRefused | None:
        try:
            ensure_ours(link, mine, take=take)
        except (ForeignBoard, SudoRefused) as error:
            return error
        return None

    asked = on_hosts(bench, hosts, ask)
    return {one.host.name: one.value for one in asked if one.value is not None}


def ensure_ours(link: HostLink, mine: BoardClaim, *, take: bool) -> None:
    """Ask whose board it is: ForeignBoard where it is another bench's, unless `take` makes it ours."""
    kept = read(link)
    if not take:
        keep_off(link, mine, kept.text)
    elif foreign(kept.text, mine) is not None:
        ran = link.run(CLAIMED, kept.sha256, mine.to_json(), mine.by(), root=True)
        if ran.exit_code == OVERTAKEN:
            raise HostError(link.host.name, *OVERTAKEN_WORDS)
        if ran.exit_code != 0:
            raise HostError(link.host.name, f"its claim cannot be written: {ran.why}", "is its disk full?")


def read(link: HostLink) -> KeptClaim:
    """Ask the host for the claim that it keeps."""
    digest, _, text = link.must(_READ, root=True).decode(errors="replace").partition("\n")
    return KeptClaim(text, digest)


def _run(link: HostLink) -> str:
    """The run that the board is in, and whether a controller leads it, as the agent says."""
    with suppress(HostError):
        status = ask_agent(link, "status")
        if run := printable(str(status.get("run", "")))[:100]:
            away_s = status.get("away_s")
            if status.get("session") == "open" or not isinstance(away_s, int | float):
                return f"; run {run} is on it now"
            return f"; run {run} is on it, without a controller for {away_s / 60.0:.0f} min"
    return ""
