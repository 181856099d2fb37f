"""A meter's output and the board behind it: what the board asks for, and what it gets."""

from __future__ import annotations

from roambench.emulation.electric.signal import PowerSignal


class Outlet:
    """The board draws what its work asks for while the output is on, else nothing.

    `signal` is the true power. Work may be reported late or ahead, also for times at which the output was
    off: then it comes to bear when the power is back. After that the board boots for `boot_s` at `boot_w`.
    """

    def __init__(self, start_ns: int, watts: float, boot_s: float = 0.0, boot_w: float = 0.0) -> None:
        self.signal = PowerSignal(start_ns, watts)
        self._wanted = PowerSignal(start_ns, watts)
        self._boot_ns = round(boot_s * 1e9)
        self._boot_w = boot_w
        self._cuts: list[tuple[int, int]] = []  # [off, board is up again)
        self._off_since_ns: int | None = None
        self._undone: list[int] = []  # when changes were to come that the last cut took back
        self._changes: list[tuple[int, float]] = []

    def want(self, ns: int, watts: float) -> None:
        """The board's work asks for `watts` from `ns` on."""
        self._wanted.change(ns, watts)
        if not self._is_dark(ns):
            self._set(ns, watts)
        for _, up_ns in self._cuts:
            if ns < up_ns and not self._is_dark(up_ns):
                self._set(up_ns, self._wanted.watts_at(up_ns))

    def off(self, ns: int) -> None:
        """The output goes off at `ns`; nothing if it is off."""
        if self._off_since_ns is not None:
            return
        if self._cuts and ns < self._cuts[-1][1]:  # while the board still boots
            self._off_since_ns = self._cuts.pop()[0]
        else:
            self._off_since_ns = ns
        self._undone = self.signal.cut(ns, 0.0)
        self._changes += [(ns, 0.0), *((later_ns, 0.0) for later_ns in self._undone)]

    def on(self, ns: int) -> None:
        """The output comes back at `ns`, and the board boots; nothing if it is on."""
        if self._off_since_ns is None:
            return
        up_ns = ns + self._boot_ns
        self._cuts.append((self._off_since_ns, up_ns))
        self._off_since_ns = None
        if up_ns > ns:
            self._set(ns, self._boot_w)
        for later_ns in self._undone:  # the truth's file says that there would be nothing
            if ns < later_ns < up_ns:
                self._set(later_ns, self._boot_w)
        self._set(up_ns, self._wanted.watts_at(up_ns))
        for later_ns, watts in self._wanted.segments_after(up_ns):
            self._set(later_ns, watts)

    def take_changes(self) -> list[tuple[int, float]]:
        """The changes of the true power since the last call, for the truth's file."""
        changes, self._changes = self._changes, []
        return changes

    def prune(self, before_ns: int) -> None:
        """Forget the past; its readers have taken the changes."""
        self.signal.prune(before_ns)
        self._wanted.prune(before_ns)
        self._cuts = [cut for cut in self._cuts if cut[1] >= before_ns]

    def _is_dark(self, ns: int) -> bool:
        if self._off_since_ns is not None and ns >= self._off_since_ns:
            return True
        return any(off_ns <= ns < up_ns for off_ns, up_ns in self._cuts)

    def _set(self, ns: int, watts: float) -> None:
        self.signal.change(ns, watts)
        self._changes.append((ns, watts))
