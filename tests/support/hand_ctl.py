"""A stand-in for `roambench-agent ctl` on several "hosts" that are one sshd each on this machine.

Which host it is, the port of the sshd tells; what its board did is kept in burns.txt beside wiring.json, and
which one is at it in burning.txt.
Its meter is emulated over that record: `wiring.json` says which board hangs on which host's meter, or
as "pi-02 for pi-01" on the meter that it reads for another.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from roambench.emulation.electric.power import Activity
from roambench.emulation.virtual import emulate


def main(words: list[str]) -> None:
    folder = Path(words[0])
    wiring = json.loads((folder / "wiring.json").read_text())
    me = wiring["hosts"][os.environ["SSH_CONNECTION"].split()[3]]
    what, *rest = words[2:]
    if what == "status":
        answer: dict[str, object] = {"build": "abc", "run": wiring["runs"].get(me, "")}
    elif what == "burn":
        began = time.monotonic()
        (folder / "burning.txt").write_text(me)
        time.sleep(float(rest[0]))
        (folder / "burning.txt").unlink()
        ended = time.monotonic()
        with (folder / "burns.txt").open("a") as burns:
            burns.write(f"{me} {began} {ended}\n")
        answer = {"ok": True, "cores": 4, "began_ns": round(began * 1e9), "ended_ns": round(ended * 1e9)}
    else:
        seconds, *neighbour = rest
        meter = f"{me} for {neighbour[0]}" if neighbour else me
        answer = readings(folder, wiring["began_s"], wiring["powers"].get(meter), float(seconds))
    print(json.dumps(answer))


def readings(folder: Path, began_s: float, board: str | None, seconds: float) -> dict[str, object]:
    now_s = time.monotonic()
    if board is None:
        return {"now_ns": round(now_s * 1e9), "ns": [], "watts": [], "flags": []}
    burns = [line.split() for line in (folder / "burns.txt").read_text().splitlines()]
    schedule = [
        change
        for name, start, end in burns
        if name == board
        for change in (
            (float(start) - began_s, Activity(busy_cores=4.0)),
            (float(end) - began_s, Activity()),
        )
    ]
    run = emulate(
        schedule,
        now_s - began_s,
        seed=1,
        device=sum(map(ord, board)) % 7,
        profile="smartpower2-100ms",
        start_ns=round(began_s * 1e9),
    )
    chosen = [r for r in run.readings() if r.monotonic_ns >= (now_s - seconds) * 1e9]
    return {
        "now_ns": round(now_s * 1e9),
        "ns": [r.monotonic_ns for r in chosen],
        "watts": [r.watts for r in chosen],
        "flags": [int(r.flags) for r in chosen],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
