"""The server of the live page against who opens connections and does not go on."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from small_runs import measured
from watching import Watching, watching

pytestmark = pytest.mark.lengthy


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    path = tmp_path_factory.mktemp("runs")
    measured(path / "demo-mohawk")
    with watching(path) as found:
        yield found


_HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    "half", [b"", _HEAD, _HEAD + b"Content-Length: 9\r\n\r\n"], ids=["none", "head", "body"]
)
def test_half_a_request_is_ended_by_the_server(server: Watching, half: bytes) -> None:
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=300)) as link:
        link.sendall(half)
        try:
            while link.recv(65536):  # an answer may come before; the end must
                pass
        except ConnectionResetError:
            pass
    assert server.get("/")[0].status == 200


def test_a_page_that_stays_open_is_not_ended(server: Watching) -> None:
    with server.stream() as messages, server.stream() as others:
        assert next(messages)["whole"] is True
        test_half_a_request_is_ended_by_the_server(server, b"GET")  # as long as that takes
        assert next(others)["whole"] is True


def test_no_more_pages_than_the_limit_are_open_however_many_ask_at_once(tmp_path: Path) -> None:
    asked = b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    measured(tmp_path / "demo-mohawk")
    with watching(tmp_path) as server, ExitStack() as open_links:  # a page of another test may still be open
        links = [
            open_links.enter_context(
                closing(socket.create_connection(("127.0.0.1", server.port), timeout=300))
            )
            for _ in range(100)
        ]
        for link in links:
            link.sendall(asked)
        answers = []
        for link in links:
            answer = http.client.HTTPResponse(link)
            open_links.callback(answer.close)
            answer.begin()
            answers.append(answer.status)
        assert (answers.count(200), answers.count(503)) == (64, 36)
