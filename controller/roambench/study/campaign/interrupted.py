"""Campaigns whose controller died, or was ended at a reboot: found in a folder of runs, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.json_values import kept_in
from roambench.runner.stopping import BY_THE_USER
from roambench.runs.lock import is_held
from roambench.runs.whole_file import write_whole
from roambench.study.campaign.campaign_log import LOG_NAME, CampaignEvent, End, read_campaign

COMMAND_NAME: Final = "command.json"
_OURS: Final = ("ab", "sweep")


@dataclass(frozen=True, slots=True)
class Command:
    """A command and its folder."""

    words: tuple[str, ...]
    folder: str


def note_command(campaign: Path) -> None:
    """Keep the command of this process beside the campaign's log. RunError where that is refused."""
    command = Command(tuple(sys.argv[1:]), str(Path.cwd()))
    write_whole(campaign / COMMAND_NAME, json.dumps(asdict(command), indent=1, ensure_ascii=False) + "\n")


def interrupted_campaigns(runs_dir: Path) -> list[Path]:
    """The campaigns in this folder that did not end: killed, or ended by a signal that no Ctrl-C sent."""
    found = []
    for path in sorted(log.parent for log in runs_dir.glob(f"*/{LOG_NAME}")):
        rows = read_campaign(path)
        if not rows or is_held(path / "lock"):
            continue
        last = rows[-1]
        killed = last.event is not CampaignEvent.ENDED
        if killed or (last.end is End.INTERRUPTED and last.reason != BY_THE_USER):
            found.append(path)
    return found


def carry_on(campaign: Path, *, to_stderr: bool = False) -> None:
    """Go on with it by the command that began it, to its end; RunError where it has none, or fails.

    `to_stderr`: what it prints goes there, as standard output is for something else.
    """
    command = kept_in(Command, campaign / COMMAND_NAME)
    if command is None or not command.words or command.words[0] not in _OURS:
        raise RunError(f"{campaign}: does not tell by which command it was begun; type that again")
    if not Path(command.folder).is_dir():
        raise RunError(f"{campaign}: was begun in {command.folder}, which is no folder any more")
    words = [sys.executable, "-m", "roambench.cli.main", *command.words]
    output = sys.stderr if to_stderr else None
    with subprocess.Popen(words, cwd=command.folder, stdin=subprocess.DEVNULL, stdout=output) as process:
        try:
            process.wait()
        except KeyboardInterrupt:  # a unit's SIGTERM reaches this process alone
            os.kill(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if process.returncode:
        raise RunError(f"{campaign}: ended with status {process.returncode}; its log tells why: {LOG_NAME}")
