"""The boards of a campaign on a bench: who takes part in the next point, and what is done about who fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from roambench.contract.counts import count
from roambench.contract.errors import FleetError, RoambenchError
from roambench.provision.bench import Host
from roambench.provision.power.table import SWITCHES
from roambench.runner.bench_options import BenchOptions
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, CampaignRow
from roambench.study.campaign.cooling import Clock
from roambench.study.campaign.maintenance import Maintenance, Treatment, TreatmentKind, common_cause

#: From power to a healthy agent: a Pi boots, waits up to 180 s for the time, and imports torch.
BACK_S: Final = 420.0
_LOOK_S: Final = 10.0
#: An agent that died is started again within seconds, and reads its meter again.
FORGIVEN_S: Final = 60.0
#: A fleet that is gone as a whole is waited for as long as a network may be repaired.
COMMON_S: Final = 21_600.0
_COMMON_LOOK_S: Final = 60.0


class Actions(Protocol):
    """The actions on a bench; each ends in its own time, and raises for no board."""

    def hosts(self) -> Sequence[Host]:
        """The hosts in service, those that play a board that was replaced among them."""
        ...

    def trouble(self, boards: Sequence[str]) -> dict[str, str]:
        """Return why each of these boards could take part in no run; those that could are not in it."""
        ...

    def power_cycle(self, boards: Sequence[str]) -> dict[str, str]:
        """Off and on, all at once; why it did not happen, by board."""
        ...

    def temperatures(self, boards: Sequence[str]) -> Mapping[str, float]:
        """Return the temperatures that these boards report, in degrees Celsius."""
        ...

    def replace(self, board: str, spare: str) -> str:
        """Let the spare play the board; why it does not, "" where it does."""
        ...


@dataclass(slots=True)
class BoardPool:
    """`least`: fewer boards run no point; None: a tenth of them, and one at least, may be missing."""

    actions: Actions
    options: BenchOptions
    least: int | None
    log: CampaignLog
    report: Callable[[str], None]
    maintenance: Maintenance
    clock: Clock = field(default_factory=Clock)

    def spares(self) -> list[str]:
        """Hosts that wait for their turn: tagged so, and not called for by their name."""
        return [host.name for host in self.actions.hosts() if self.options.waits(host)]

    def boards(self) -> list[str]:
        """All that would take part if none were left out."""
        only, hosts = self.options.only, self.actions.hosts()
        return [host.name for host in hosts if not self.options.waits(host) and host.is_chosen(only)]

    def temperatures(self) -> Mapping[str, float]:
        """Return the temperatures of the boards that take part."""
        return self.actions.temperatures(
            [name for name in self.boards() if not self.maintenance.of(name).left_out]
        )

    def at_start(self) -> tuple[str, ...]:
        """The boards that the next point does without; those that were left out are looked at first.

        FleetError where too few are left.
        """
        looked_at = [name for name in self.maintenance.left_out if self.maintenance.of(name).is_looked_at]
        trouble = self.actions.trouble(looked_at) if looked_at else {}
        for name in looked_at:
            if name not in trouble:
                self._note(CampaignRow(CampaignEvent.CAME_BACK, "it is healthy again", board=name))
        return self._enough()

    def after(
        self, failing: Sequence[str], reason: str, without: Sequence[str], *, failed: bool = False
    ) -> bool:
        """Treat the boards that a point failed by. True where the point is worth another start: something
        was done about them, or they are healthy by themselves. FleetError where too few are left, or
        none come back. `failed`: the point did not finish; a board that is healthy again within a minute, as
        one whose agent was started again, is forgiven this once."""
        boards = self.boards()
        failing = [name for name in dict.fromkeys(failing) if name in boards and name not in without]
        # One that is known to be ill, and a second one's bad minute, are no common cause.
        ill = [name for name in failing if self.maintenance.of(name).cycled or self.maintenance.of(name).dead]
        at_once = [name for name in failing if name not in ill]
        if common_cause(at_once, len(boards) - len(without) - len(ill)):
            return self._await(failing, boards, reason)
        back_s = (
            self._back([name for name in failing if not self.maintenance.of(name).forgiven]) if failed else {}
        )
        for name in failing:
            failures = self.maintenance.of(name).failures + (name not in back_s)
            row = CampaignRow(CampaignEvent.BOARD_FAILED, reason, board=name, failures=failures)
            self._note(replace(row, wall_s=back_s.get(name)))
        acted = bool(failing) and set(failing) == set(back_s)
        looked_after = False
        while treatments := self.maintenance.treatments(self._switched(), self.spares()):
            acted = looked_after = True
            cycled = [one for one in treatments if one.kind is TreatmentKind.POWER_CYCLE]
            if cycled:
                self._cycle([one.board for one in cycled])
            self._replace([one for one in treatments if one.kind is TreatmentKind.REPLACE])
            for one in treatments:
                if one.kind is TreatmentKind.LEAVE_OUT:
                    self._note(CampaignRow(CampaignEvent.LEFT_OUT, one.reason, board=one.board))
        if looked_after:
            self._enough()
        return acted

    def _back(self, boards: list[str]) -> dict[str, float]:
        """After how many seconds each was healthy again, of those that were within a minute."""
        found: dict[str, float] = {}
        began_s = self.clock.now_s()
        while boards:
            sick = self.actions.trouble(boards)
            passed_s = self.clock.now_s() - began_s
            found |= {name: passed_s for name in boards if name not in sick}
            boards = [name for name in boards if name in sick]
            if not boards or passed_s >= FORGIVEN_S:
                break
            self.clock.sleep(_LOOK_S)
        return found

    def _enough(self) -> tuple[str, ...]:
        boards = self.boards()
        without = tuple(name for name in self.maintenance.left_out if name in boards)
        least = max(1, len(boards) - max(1, len(boards) // 10)) if self.least is None else self.least
        if len(boards) - len(without) < least:
            reasons = ", ".join(f"{name} ({self.maintenance.of(name).reason})" for name in without)
            raise FleetError(
                f"{count(len(boards) - len(without), 'board')} left, at least {least} are to take part "
                f"(--least): without {reasons}; mend them, then the same command goes on"
            )
        return without

    def _cycle(self, boards: list[str]) -> None:
        self.report(f"power cycle: {', '.join(boards)}")
        undone = self.actions.power_cycle(boards)
        waiting = [name for name in boards if name not in undone]
        began_s = self.clock.now_s()
        trouble = dict(undone)
        while waiting:
            self.clock.sleep(_LOOK_S)
            found = self.actions.trouble(waiting)
            trouble = {**undone, **found}
            waiting = [name for name in waiting if name in found]
            if self.clock.now_s() - began_s >= BACK_S:
                break
        waited_s = self.clock.now_s() - began_s
        for name in boards:
            why = trouble.get(name, "")
            if name in waiting:
                why = f"not healthy {waited_s:.0f} s after its power came back: {why}"
            row = CampaignRow(CampaignEvent.POWER_CYCLED, why, board=name, done=not why, wall_s=waited_s)
            self._note(row)

    def _replace(self, treatments: list[Treatment]) -> None:
        if not treatments:
            return
        self.report("; ".join(f"{one.spare} takes the place of {one.board}" for one in treatments))
        # Replacements are one file of the bench's: one after the other; few boards die at once.
        for one in treatments:
            why = self.actions.replace(one.board, one.spare)
            why = why or self.actions.trouble([one.board]).get(one.board, "")
            row = CampaignRow(CampaignEvent.REPLACED, why or one.reason, board=one.board, spare=one.spare)
            self._note(replace(row, done=not why))

    def _await(self, failing: Sequence[str], boards: Sequence[str], reason: str) -> bool:
        """Wait while most boards fail at once, hardly by their own fault; whether they still did."""
        what = f"{len(failing)} of {len(boards)} boards fail at once: the network, a switch, this machine?"
        self.report(f"waiting: {what} {reason}")
        self._note(CampaignRow(CampaignEvent.WAITED, f"{what} {reason}", wall_s=0.0))
        began_s, still = self.clock.now_s(), False
        while common_cause(found := self.actions.trouble(failing), len(boards)):
            if self.clock.now_s() - began_s >= COMMON_S:
                reasons = "; ".join(f"{name}: {why}" for name, why in sorted(found.items())[:4])
                raise FleetError(f"{what} Nothing changed within {COMMON_S / 3600:.0f} h: {reasons}")
            still = True
            self.clock.sleep(_COMMON_LOOK_S)
        self._note(CampaignRow(CampaignEvent.WAITED, what, wall_s=self.clock.now_s() - began_s))
        return still

    def _switched(self) -> set[str]:
        return {host.name for host in self.actions.hosts() if _has_switch(host)}

    def _note(self, row: CampaignRow) -> None:
        self.maintenance.hear(self.log.note(row))
        if row.board:
            did = row.event.value.replace("_", " ") + (f" by {row.spare}" if row.spare else "")
            reasons = [
                f"{did}{'' if row.done else ' without success'}",
                *([row.reason] if row.reason else []),
            ]
            self.report(f"{row.board}: {': '.join(reasons)}")


def _has_switch(host: Host) -> bool:
    try:
        SWITCHES.load(host.power.switch).switch(host.power.keys, host)
    except RoambenchError:
        return False
    return True
