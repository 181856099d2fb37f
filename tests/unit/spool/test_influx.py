"""Writing to servers that fail in every way."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from influx_servers import free_port
from roambench.contract.records import Reading, RecordKind
from roambench.spool.drain import BatchRefused, BatchTooLarge, Busy, Drain, NotWelcome, TooSlow
from roambench.spool.influx import InfluxSender, InfluxWriter
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import Spool
from scripted_influx import LINE, Scripted, serving, writing


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with serving("127.0.0.1") as script:
        yield script


def filled_spool(folder: Path) -> Spool:
    """40 records."""
    spool = Spool(folder / "spool.sqlite", consumers=("influxdb",))
    spool.begin_context(RecordContext("b" * 32, "0/1.0", 1_700_000_000 * 10**9, "smartpower2", "r"), 0)
    for i in range(39):
        spool.append(RecordKind.READING, Reading(i * 10_000_000, 5.0, 0.5, 2.5).to_bytes())
    return spool


@pytest.fixture(params=["v2", "v1"])
def target(request: pytest.FixtureRequest, scripted: Scripted, tmp_path: Path) -> InfluxSettings:
    token = tmp_path / "token"
    token.write_text("me:s3cret-t0ken\n")
    return InfluxSettings(scripted.url, "bench/week", "org", request.param, str(token))


def test_a_batch_goes_out_compressed_with_its_token_to_the_right_bucket(scripted, target):
    scripted.answer(204)
    with writing(target) as write:
        write(LINE)
        write(LINE)
    path, headers, body = scripted.requests[1]
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == LINE
    if target.api == "v2":
        assert path == "/api/v2/write?org=org&bucket=bench%2Fweek&precision=ns"
        assert headers["Authorization"] == "Token me:s3cret-t0ken"
    else:
        assert path == "/write?db=bench&precision=ns&rp=week"
        assert headers["Authorization"] == "Basic bWU6czNjcmV0LXQwa2Vu"
    scripted.requests.clear()
    with writing(replace(target, gzip=False, token_file="", token_env="")) as write:
        write(LINE)
    assert scripted.requests[0][2] == LINE
    assert "Authorization" not in scripted.requests[0][1]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, NotWelcome),
        (413, BatchTooLarge),
        (422, NotWelcome),
        (401, NotWelcome),
        (403, NotWelcome),
        (404, NotWelcome),
        (405, NotWelcome),
        (302, NotWelcome),
        (429, Busy),
        (500, Busy),
        (503, Busy),
    ],
)
def test_every_answer_is_taken_for_what_it_means(scripted, target, status, kind):
    scripted.answer(status, b'{"code":"x","message":"a \\"reason\\" of the server"}')
    with writing(target) as write, pytest.raises(kind, match=f"{status} .*reason"):
        write(LINE)


#: As the sources and documents of InfluxDB 1.8, 2.7 and 3 were remembered; only 1.6.7 was asked here.
CONFLICT = rb"field type conflict: input field \"seq\" on measurement \"power\" is type float"
LINES_FAULTS = [
    (400, b'{"error":"unable to parse \'power seq=\': missing field value"}'),
    (400, b'{"error":"partial write: ' + CONFLICT + b', already exists as type integer dropped=1"}'),
    (400, b'{"error":"partial write: points beyond retention policy dropped=1"}'),
    (400, b'{"code":"invalid","message":"unable to parse \'power\': missing fields"}'),
    (
        422,
        b'{"code":"unprocessable entity","message":"failure writing points to database: partial write: '
        + CONFLICT
        + b', already exists as type integer dropped=1"}',
    ),
    (400, b'{"error":"partial write of line protocol occurred","data":[{"line_number":1}]}'),
]
LIMIT = rb"max-values-per-tag limit exceeded (100001/100000): measurement=\"power\" tag=\"run\" dropped=1"
OTHERS_FAULTS = [
    (400, b"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>"),
    (400, b"<html><body><h1>400 Bad request</h1>Your browser sent an invalid request.</body></html>"),
    (400, b"Client sent an HTTP request to an HTTPS server.\n"),
    (400, b'{"error":"database is required"}'),
    (400, b'{"code":"invalid","message":"Please provide either orgID or org"}'),
    (400, b'{"error":"gzip: invalid header"}'),
    (400, b'{"error":"partial write: ' + LIMIT + b'"}'),
    (400, b'{"error":"partial write: max-series-per-database limit exceeded: (1000000) dropped=1"}'),
    (422, b'{"code":"unprocessable entity","message":"bucket is read only"}'),
    (400, b""),
]


PAGE = b"<html><head><title>Sign in to the lab's network</title></head>\x1b[2J\xff</html>"
#: What is no InfluxDB's, whatever it looks like.
STRANGERS = [
    (200, {"Content-Type": "text/html"}, PAGE),
    (200, {"Content-Type": "text/html", "Content-Encoding": "gzip"}, gzip.compress(PAGE * 10_000)),
    (200, {"Content-Encoding": "gzip"}, b"no gzip"),
    (200, {}, b""),
    (200, {"Content-Type": "application/json"}, b'{"results":[{}]}'),
    (201, {}, b'{"message":"partial write"}'),
    (202, {}, b""),
    (204, {}, b""),
    (206, {"Content-Range": "bytes 0-1/2"}, b"ok"),
    (301, {"Location": "https://influx.lan:8086/api/v2/write"}, b""),
    (302, {"Location": "http://login.lan/?next=/write"}, PAGE),
    (304, {}, b""),
    (400, {"Content-Type": "text/html"}, b"<h1>Bad Request</h1>unable to parse your request"),
    (400, {}, b'{"error":"partial write: field type conflict"}'),
    (422, {}, b'{"message":"parsing failed"}'),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("status", "headers", "body"), STRANGERS)
async def test_only_an_influxdb_can_say_that_a_record_is_stored_or_will_never_be(
    scripted, target, tmp_path, status, headers, body
):
    spool = filled_spool(tmp_path)
    scripted.is_influxdb = False
    scripted.answers.append((status, headers, body))
    sender = InfluxSender(InfluxWriter(target, print), LineEncoder("pi-01", spool))
    drain = Drain(spool.consumers["influxdb"], sender.send, trouble=print, backoff_most_s=0.05)
    assert not await drain.flush(1.0 if body == b"no gzip" else 60.0)
    assert (spool.depth, spool.dead) == (40, 0)
    assert drain.last_error.isprintable()
    assert len(drain.last_error) <= 300
    if body != b"no gzip":
        assert str(status) in drain.trouble
        assert "no header of an InfluxDB" in drain.trouble or status >= 400
    if "Location" in headers:
        assert headers["Location"] in drain.trouble
    scripted.is_influxdb = True
    scripted.answers.clear()
    scripted.answer(204)
    assert await drain.flush(5.0)  # a sender has signed in
    assert (spool.depth, drain.trouble) == (0, "")
    await sender.aclose()
    spool.close()


def test_no_redirect_is_followed(scripted, target):
    scripted.is_influxdb = False
    scripted.answers.append((307, {"Location": "/api/v2/write"}, b""))
    scripted.answers.append((308, {"Location": "/write"}, b""))
    with writing(target) as write:
        for _ in range(2):
            with pytest.raises(NotWelcome, match=r"30[78]"):
                write(LINE)
    assert len(scripted.requests) == 2


def test_an_influxdb_that_says_so_only_at_ping_is_asked_there_once(scripted, target):
    scripted.is_influxdb, scripted.pings = False, True  # InfluxDB 3 before 3.7
    scripted.answer(204)
    scripted.answer(204)
    scripted.answer(400, b'{"error":"partial write of line protocol occurred"}')
    with writing(target) as write:
        write(LINE)
        write(LINE)
        with pytest.raises(BatchRefused):
            write(LINE)
    assert [path for path, _, _ in scripted.requests].count("/ping") == 1


def test_no_more_of_an_answer_is_kept_than_a_message_takes(scripted, target):
    scripted.answer(200, b"x" * 50_000_000)
    with writing(target) as write, pytest.raises(NotWelcome) as caught:
        write(LINE)
    assert len(str(caught.value)) <= 300


def test_a_server_that_does_not_answer_in_time_is_given_more_time_and_less_to_do(scripted, target):
    scripted.answer(204)
    scripted.slow_s = 0.6
    writer = InfluxWriter(replace(target, timeout_s=0.4), print)
    with pytest.raises(TooSlow, match=r"no answer within 0.4 s"):
        writer.write(LINE)
    writer.patience_s = 20.0
    writer.write(LINE)
    assert writer.patience_s == 0.4
    writer.close()


@pytest.mark.asyncio
async def test_a_write_that_is_given_up_ends_at_once_and_the_next_one_begins_anew(scripted, target, tmp_path):
    spool = filled_spool(tmp_path)
    scripted.answer(204)
    scripted.slow_s = 60.0
    sender = InfluxSender(InfluxWriter(target, pytest.fail), LineEncoder("pi-01", spool))
    sending = asyncio.create_task(sender.send(spool.batch()))
    async with asyncio.timeout(20.0):
        while not scripted.requests:
            await asyncio.sleep(0.01)
    scripted.slow_s = 0.0
    sending.cancel()
    async with asyncio.timeout(20.0):  # not the 60 s that the server takes
        await asyncio.gather(sending, return_exceptions=True)
        assert await sender.send(spool.batch()) == 40
    await sender.aclose()
    spool.close()


def test_a_mistake_of_ours_costs_no_record_and_its_traceback_is_kept_once(scripted, target):
    told: list[str] = []
    writer = InfluxWriter(target, told.append)
    for _ in range(2):
        with pytest.raises(Busy, match="Error"):
            writer.write(7.5)
    (kept,) = told
    assert "Traceback" in kept
    assert "influx.py" in kept
    writer.close()


def test_a_server_that_is_away_is_no_mistake_of_ours(scripted, target):
    told: list[str] = []
    writer = InfluxWriter(replace(target, url=f"http://127.0.0.1:{free_port()}"), told.append)
    with pytest.raises(Busy):
        writer.write(LINE)
    assert told == []
    writer.close()


@pytest.mark.parametrize(("status", "body"), LINES_FAULTS)
def test_an_answer_that_names_a_line_is_the_batchs_own_fault(scripted, target, status, body):
    scripted.answer(status, body)
    with writing(target) as write, pytest.raises(BatchRefused):
        write(LINE)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "body"), [*OTHERS_FAULTS, (413, b"<h1>413 Request Entity Too Large</h1>")]
)
async def test_no_other_answer_costs_a_record_and_a_person_learns_of_it(
    scripted, target, tmp_path, status, body
):
    spool = filled_spool(tmp_path)
    scripted.answer(status, body)
    sender = InfluxSender(InfluxWriter(target, print), LineEncoder("pi-01", spool))
    drain = Drain(spool.consumers["influxdb"], sender.send, trouble=print)
    assert not await drain.flush(5.0)
    assert (spool.depth, spool.dead) == (40, 0)
    assert str(status) in drain.trouble
    scripted.answers.clear()
    scripted.answer(204)
    assert await drain.flush(5.0)  # the proxy was put right
    assert (spool.depth, spool.dead, drain.trouble) == (0, 0, "")
    await sender.aclose()
    spool.close()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120.0), ("0", 0.0), ("-5", 0.0), ("soon", 0.0), ("9" * 40, 0.0), ("", 0.0)],
)
def test_the_time_a_server_asks_for_is_respected(scripted, target, header, seconds):
    scripted.answer(429, b"", Retry_After=header)
    with writing(target) as write, pytest.raises(Busy) as caught:
        write(LINE)
    assert caught.value.retry_after_s == seconds


def test_a_date_in_retry_after_is_understood(scripted, target):
    scripted.answer(
        503, b"", Retry_After=time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 90))
    )
    with writing(target) as write, pytest.raises(Busy) as caught:
        write(LINE)
    assert 80.0 < caught.value.retry_after_s <= 90.0


HOSTILE = [b"", b"[]", b"{", b"\xff\xfe\x00garbage" * 20, b'{"message": 7}', b'["message"]', b"x" * 200_000]
HOSTILE += [b'{"message": "Token me:s3cret-t0ken"}', b"7", b"null", b"[" * 100_000]


@pytest.mark.parametrize(("status", "kind"), [(400, NotWelcome), (401, NotWelcome), (500, Busy)])
@pytest.mark.parametrize("body", HOSTILE)
def test_no_strange_body_changes_what_a_status_means_or_gets_a_secret_or_a_flood_into_the_message(
    scripted, target, status, kind, body
):
    scripted.answer(status, body)
    with writing(target) as write, pytest.raises(kind) as caught:
        write(LINE)
    text = str(caught.value)
    assert "s3cret" not in text
    assert len(text) <= 300
    assert text.isprintable()


def test_a_server_that_dies_over_its_answer_or_is_not_there_is_busy(scripted, target):
    scripted.answer(0)
    with writing(target) as write, pytest.raises(Busy):
        write(LINE)
    away = replace(target, url=f"http://127.0.0.1:{free_port()}")
    with writing(away) as write, pytest.raises(Busy, match="refused"):
        write(LINE)


def test_a_token_that_was_put_right_is_used_without_a_restart(scripted, target):
    scripted.answer(401)
    scripted.answer(204)
    with writing(target) as write:
        with pytest.raises(NotWelcome):
            write(LINE)
        Path(target.token_file).write_text("other:token")
        write(LINE)
    first, second = (headers["Authorization"] for _, headers, _ in scripted.requests)
    assert first != second
    with writing(replace(target, token_file="/nowhere/token")) as write, pytest.raises(NotWelcome) as caught:
        write(LINE)
    assert str(caught.value) == "token file /nowhere/token: cannot be read (No such file or directory)"


def test_telegraf_which_answers_before_it_has_passed_a_record_on_acknowledges_none(scripted, target):
    """Its listener's 204 has no header; its /ping, and its complaints, say version 1.0."""
    scripted.is_influxdb, scripted.pings, scripted.version = False, True, "1.0"
    scripted.answer(204)
    with writing(target) as write, pytest.raises(NotWelcome, match="Telegraf"):
        write(LINE)
