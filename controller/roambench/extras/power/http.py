"""HTTP by curl, within a time and a size: an answer of a switch, with a login, or a posted message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from roambench.extras.power.programs import MOST_BYTES, run_program
from roambench.provision.power.switch import SwitchError, short

ANSWER_S: Final = 8.0
_CONNECT_S: Final = 4.0
#: curl's exit codes that need other words than its own.
_TIMED_OUT, _TOO_LARGE = 28, 63
_UNAUTHORISED: Final = "401"


@dataclass(frozen=True, slots=True)
class HttpLogin:
    """Name and password, given where a device asks for Basic or Digest (curl: MD5, SHA-256)."""

    user: str
    password: str


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and an object of JSON; no other body is an answer."""

    status: int
    values: dict[str, Any]


async def get(address: str, path: str, login: HttpLogin | None = None) -> HttpAnswer:
    """GET http://`address``path`. SwitchError, which names the address only (a path may hold a password), for
    where there is no answer. 401 is one, without values: `refused` is its error."""
    lines = [
        f"url = {_quoted(f'http://{address}{path}')}",
        'proto = "=http"',
        'noproxy = "*"',
        f"connect-timeout = {_CONNECT_S}",
        f"max-time = {ANSWER_S}",
        f"max-filesize = {MOST_BYTES}",
        r'write-out = "\n%{http_code}"',
    ]
    if login is not None:
        lines += [f"user = {_quoted(f'{login.user}:{login.password}')}", "anyauth"]
    # No file of the user's (-q); the request by standard input, for everybody sees a command's words.
    words = ["curl", "-q", "--silent", "--show-error", "--globoff", "--config", "-"]
    ran = await run_program(words, address, ANSWER_S + 2.0, stdin="\n".join(lines) + "\n")
    body, _, status = ran.out.rpartition("\n")
    if ran.exit_code == _TIMED_OUT:
        raise SwitchError(
            f"{address}: no whole answer within {ANSWER_S:g} s", "is it powered and in this network?"
        )
    if ran.exit_code == _TOO_LARGE:
        raise SwitchError(f"{address}: answers with more than {MOST_BYTES // 1024} KiB", "is it this switch?")
    if ran.exit_code != 0:
        why = ran.why.partition(") ")[2] or ran.why
        raise SwitchError(f"{address}: {short(why)}", "is it powered and in this network?")
    if status == _UNAUTHORISED:
        return HttpAnswer(int(status), {})
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise SwitchError(
            f"{address}: answers {status} and no JSON object: {short(body)!r}", "is it this sort of switch?"
        )
    return HttpAnswer(int(status), values)


async def post(url: str, body: str) -> None:
    """POST `body`, which is JSON, to an http or https URL. SwitchError, which names no more of it than its
    host (its path and its user may be secrets), where the answer is no success."""
    where = urlsplit(url).hostname or "webhook"
    lines = [
        f"url = {_quoted(url)}",
        'proto = "=http,https"',
        'header = "Content-Type: application/json"',
        f"data-binary = {_quoted(body)}",
        f"connect-timeout = {_CONNECT_S}",
        f"max-time = {ANSWER_S}",
        'output = "/dev/null"',
        'write-out = "%{http_code}"',
    ]
    words = ["curl", "-q", "--silent", "--globoff", "--config", "-"]
    ran = await run_program(words, where, ANSWER_S + 2.0, stdin="\n".join(lines) + "\n")
    if ran.exit_code != 0:
        raise SwitchError(f"{where}: curl ends with {ran.exit_code}", "man curl, EXIT CODES, says why")
    if not ran.out.startswith("2"):
        raise SwitchError(f"{where}: answers {ran.out[:3]}")


def refused(address: str, *, given: bool) -> SwitchError:
    """The error of a login that was refused, with the password that was `given` or without one."""
    if given:
        return SwitchError(f"{address}: refuses the password", "is password_file this switch's?")
    return SwitchError(f"{address}: wants a password", "name a password_file in its power table")


def unexpected(address: str, answer: HttpAnswer, wanted: str) -> SwitchError:
    """The error of an answer without what was asked for."""
    said = json.dumps(answer.values, ensure_ascii=False)
    return SwitchError(f"{address}: expected {wanted}, it answers {answer.status}: {short(said)}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
