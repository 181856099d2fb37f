"""Text of what provisioning did, or would do, for people and for programs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any

from roambench.contract.counts import count
from roambench.contract.printable import printable
from roambench.provision.bench import Host
from roambench.provision.provisioning import Provisioned
from roambench.provision.ssh.hosts import HostOutcome
from roambench.provision.step import HostStep, RemoteFile


def state_text(done: Provisioned, *, dry_run: bool) -> str:
    """One line: what was changed, or that nothing was."""
    if not done.changes:
        return f"unchanged ({done.seconds:.1f} s)"
    what = ", ".join(done.changes)
    return f"to change: {what}" if dry_run else f"changed: {what} ({done.seconds:.0f} s)"


def plans_text(outcomes: Sequence[HostOutcome[Provisioned]]) -> str:
    """The plans of all hosts that answered; equal ones once. `HOST` stands for each one's name in them."""
    plans: dict[str, list[str]] = {}
    for one in outcomes:
        if one.value is not None:
            plans.setdefault(_plan_text(one.host, one.value), []).append(one.host.name)
    return "\n".join(f"{_names(hosts)}: {plan}" for plan, hosts in plans.items())


def _names(hosts: Sequence[str]) -> str:
    return ", ".join(hosts) + (f" ({count(len(hosts), 'host')})" if len(hosts) > 1 else "")


def _plan_text(host: Host, done: Provisioned) -> str:
    """Every step with its reason, files, their differences and command; secrets are not shown."""
    lines = [f"build {done.build.hash}, {count(len(done.plan.steps), 'step')}"]
    for number, step in enumerate(done.plan.steps, start=1):
        lines.append(f"  {number}. {step.subject}: {step.reason}")
        for file in step.files:
            secret = ", secret" if file.secret else ""
            lines.append(f"       write {file.path} ({file.mode:04o} {file.owner}{secret})")
            lines += [f"       {line}" for line in _difference(file, done.found.get(file.path))]
        if step.shipment is not None:
            size = f"{step.shipment.size_bytes / 1e6:.1f} MB"
            lines.append(f"       send what is not there of {len(step.shipment.files)} files ({size})")
        lines += [f"       # {line}" for line in step.script.strip().splitlines()]
        lines += [f"       # with {shlex.quote(printable(value))}" for value in step.values]
    lines += [f"  -  {skip.subject}: not applicable here: {skip.why}" for skip in done.plan.skips]
    own = re.compile(rf"(?<![\w.-]){re.escape(host.name)}(?![\w.-])")
    return own.sub("HOST", "\n".join(lines))


def _difference(file: RemoteFile, found: bytes | None) -> Iterator[str]:
    """Return what writing it changes; nothing where that was not asked."""
    if found is None or file.secret:
        return
    before, after = (text.decode(errors="replace").splitlines() for text in (found, file.content))
    for line in list(unified_diff(before, after, lineterm="", n=1))[2:]:
        yield printable(line)


def provision_json(outcomes: Sequence[HostOutcome[Provisioned]], *, dry_run: bool) -> str:
    """A list of objects: host, state, reason, next_action, and of hosts that answered build, seconds, steps
    and what does not apply."""
    return json.dumps([_outcome(one, dry_run=dry_run) for one in outcomes], indent=2)


def _outcome(one: HostOutcome[Provisioned], *, dry_run: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"host": one.host.name}
    done = one.value
    if done is None:
        return {**row, "state": "failed", "reason": one.reason, "next_action": one.next_action}
    changed = "to change" if dry_run else "changed"
    return {
        **row,
        "state": changed if done.plan.steps else "unchanged",
        "reason": "",
        "next_action": "",
        "build": done.build.hash,
        "code": done.build.code,
        "version": done.build.version,
        "wheelhouse": done.build.wheelhouse.hash,
        "seconds": round(done.seconds, 3),
        "steps": [_step(step) for step in done.plan.steps],
        "not_applicable": {skip.subject: skip.why for skip in done.plan.skips},
    }


def _step(step: HostStep) -> dict[str, Any]:
    return {
        "subject": step.subject,
        "reason": step.reason,
        "files": [file.path for file in step.files],
        "command": step.script,
        "values": list(step.values),
    }
