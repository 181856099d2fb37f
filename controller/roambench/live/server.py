"""The server of the live page: pages and their files, runs as a stream of changes, figures for Prometheus.

It answers GET only and changes nothing. On a loopback address it answers to that machine's own names, so that
no website can reach it by another name; elsewhere it asks for a token.
"""

from __future__ import annotations

import asyncio
import secrets
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request, cookie_parser
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roambench.contract.errors import ConfigError, RoambenchError
from roambench.live.follower import Follower, Subscriber
from roambench.live.metrics import CONTENT_TYPE
from roambench.report.run_columns import COLUMNS, SHOWN
from roambench.report.run_filter import WHERE

#: What a browser may do with a page of ours: show its own files and read its own stream, nothing else.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_POLICY: Final = "content-security-policy"
_HEADERS: Final = {
    _POLICY: POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PAGES: Final = files("roambench.live") / "page"
_REPORT: Final = files("roambench.report.templates")
#: A comment, so that a connection whose other end is gone is noticed.
_STILL_HERE: Final = ": still here\n\n"
_STILL_HERE_S: Final = 15.0
#: What zlib calls a gzip file with the largest window.
_GZIP: Final = 16 + zlib.MAX_WBITS
#: More runs beside each other than these are no comparison.
_MOST_COMPARED: Final = 12

_KINDS: Final = {"css": "text/css", "js": "text/javascript"}


def live_app(follower: Follower, token: str = "") -> ASGIApp:
    """The server's application; with a `token` it answers requests that have it, else to this machine's
    names."""

    def page(name: str) -> Callable[[Request], Awaitable[Response]]:
        text = (_PAGES / name).read_text("utf-8")

        async def shown(_request: Request) -> Response:
            return Response(text, media_type="text/html")

        return shown

    def asset(name: str) -> Response:
        # The sheets of the report's pages, where they are: one set of colours for both.
        found = next(path for path in (_REPORT / name, _PAGES / name) if path.is_file())
        return Response(found.read_text("utf-8"), media_type=_KINDS[name.rpartition(".")[2]])

    names = ("page.css", "look.css", "live.css", "live.js", "charts.js", "runs.js")
    assets = {name: asset(name) for name in names}

    async def file(request: Request) -> Response:
        return assets.get(request.path_params["name"]) or _not_found("no such file")

    async def runs(request: Request) -> Response:
        try:
            return JSONResponse(await follower.listed(request.query_params.get("where", "")))
        except ConfigError as error:
            wrong = error.problems[0].removeprefix(f"{WHERE}: ")
            return PlainTextResponse(wrong, HTTPStatus.BAD_REQUEST)

    async def columns(_request: Request) -> Response:
        shown = [COLUMNS[name] for name in SHOWN]
        return JSONResponse([{"name": it.name, "title": it.title, "kind": it.kind} for it in shown])

    async def figures(request: Request) -> Response:
        return JSONResponse(await follower.compared(request.query_params.getlist("run")[:_MOST_COMPARED]))

    async def stream(request: Request) -> Response:
        name = request.query_params.get("run", "")
        if name and await follower.found(name) is None:
            return _not_found(f"no run {name!r} in this folder")
        return _Stream(follower, name)

    async def step(request: Request) -> Response:
        text = await follower.step(request.query_params.get("run", ""), request.path_params["step"])
        if text is None:
            return _not_found("no page shows this run")
        return Response(text, media_type="application/json")

    async def metrics(request: Request) -> Response:
        try:
            text = await follower.metrics(request.query_params.get("run", ""))
        except RoambenchError as error:
            return _not_found(str(error))
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def report(request: Request) -> Response:
        found = await follower.found(request.query_params.get("run", ""))
        path = found.report if found is not None else None
        if path is None:
            return _not_found("this run has no report yet: roambench report makes one")
        # A page that stands alone, under a separate policy: it may not reach this server.
        return FileResponse(
            path, media_type="text/html", headers={_POLICY: "sandbox allow-scripts allow-downloads"}
        )

    routes = [
        Route("/", page("live.html")),
        Route("/runs", page("runs.html")),
        Route("/files/{name}", file),
        Route("/runs.json", runs),
        Route("/columns.json", columns),
        Route("/figures.json", figures),
        Route("/stream", stream),
        Route("/steps/{step:int}", step),
        Route("/report", report),
        Route("/metrics", metrics),
    ]
    return RequestGuard(Starlette(routes=routes), token)


class _Stream(Response):
    """The changes of a run to one page, unless too many are open when it begins."""

    def __init__(self, follower: Follower, name: str) -> None:
        super().__init__()
        self._follower = follower
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._follower.full:
            refusal = PlainTextResponse("too many pages are open", HTTPStatus.SERVICE_UNAVAILABLE)
            await refusal(scope, receive, send)
            return
        with self._follower.subscribed(self._name) as subscriber:  # with no await since the look
            texts, headers = _events(subscriber), dict[str, str]()
            if "gzip" in Headers(scope=scope).get("accept-encoding", ""):
                headers["content-encoding"] = "gzip"
            events = StreamingResponse(
                _zipped(texts) if headers else texts, media_type="text/event-stream", headers=headers
            )
            await events(scope, receive, send)


async def _zipped(texts: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Texts as one gzip stream, in which each can be read at once."""
    packer = zlib.compressobj(level=1, wbits=_GZIP)

    def packed(text: str) -> bytes:
        return packer.compress(text.encode()) + packer.flush(zlib.Z_SYNC_FLUSH)

    async for text in texts:
        yield await asyncio.to_thread(packed, text)  # of a large run half a second


async def _events(subscriber: Subscriber) -> AsyncIterator[str]:
    """Server-sent events: the run whole, then what changes."""
    yield "retry: 2000\n\n"
    while True:
        try:
            text = await asyncio.wait_for(subscriber.next(), _STILL_HERE_S)
        except TimeoutError:
            yield _STILL_HERE
            continue
        if text is None:
            return
        yield f"data: {text}\n\n"


def _not_found(text: str) -> Response:
    return PlainTextResponse(text, HTTPStatus.NOT_FOUND)


class RequestGuard:
    """Lets requests in that name this machine or carry the token, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if not self._token:
            host = headers.get("host", "").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name in _OWN_NAMES:
                return None
            return PlainTextResponse("not a name of this machine: use http://127.0.0.1", 421)
        query = QueryParams(scope["query_string"])
        if self._is_token(query.get("token", "")):
            if scope["path"] == "/metrics":
                return None
            # The token does not stay in the address, where it would be shown and kept.
            rest = urlencode([(name, value) for name, value in query.multi_items() if name != "token"])
            answer = RedirectResponse(scope["path"] + ("?" + rest if rest else ""), HTTPStatus.SEE_OTHER)
            answer.set_cookie(self._cookie(scope), self._token, httponly=True, samesite="strict")
            return answer
        cookies = cookie_parser(headers.get("cookie", ""))
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(cookies.get(self._cookie(scope), "")) or self._is_token(bearer):
            return None
        text = "this page wants the token that `roambench watch` printed: open the address with ?token=..."
        return PlainTextResponse(text, HTTPStatus.FORBIDDEN)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self._token.encode())

    @staticmethod
    def _cookie(scope: Scope) -> str:
        """Cookies know no ports."""
        server: Any = scope.get("server") or ("", 0)
        return f"roambench_{server[1]}"
