"""Meters that publish by MQTT: a real broker and a real client, and messages of every kind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meter_items import items, watts
from mqtt_broker import Broker
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.events import EventKind
from roambench.extras.meters.mqtt_frames import MqttFrames
from roambench.identity.authority import Authority
from roambench.meters.catalogue import open_meter
from roambench.meters.stream_meter import StreamMeter

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("payload", "field", "watts"),
    [
        (b"12.3", "", 12.3),
        (b" 7 ", "", 7.0),
        (b'{"power": 12.3}', "power", 12.3),
        (b'{"power": "12.3"}', "power", 12.3),
        (b'{"ENERGY": {"Power": [1, 3]}}', "ENERGY.Power.1", 3.0),
        (b"", "", None),
        (b"nan", "", None),
        (b"1e99", "", None),
        (b"99999", "", None),
        (b"\xff\x00", "", None),
        (b'{"power": true}', "power", None),
        (b'{"power": NaN}', "power", None),
        (b'{"power": 1', "power", None),
        (b'{"current": 1}', "power", None),
        (b"[" * 4000, "0", None),
        (b" " * 5000 + b"1", "", None),
    ],
)
def test_a_message_is_a_number_or_has_one_at_the_field(
    payload: bytes, field: str, watts: float | None
) -> None:
    frames = MqttFrames(1.0, field, 1.0, "", 2.0)
    assert [r.watts for r in frames.feed(payload, SECOND)] == ([] if watts is None else [watts])
    assert (frames.counts.rejected > 0) == (watts is None and payload != b"")


def test_late_and_overtaken_messages_are_gaps_by_their_own_time() -> None:
    frames = MqttFrames(1.0, "w", 1e-3, "t", 2.0)
    times = [(10, 10.2), (11, 11.2), (12, 15.0), (14, 15.1), (13, 15.2), (16, 16.4)]  # sent, received
    got = []
    for sent_s, received_s in times:
        payload = json.dumps({"w": 1000 * sent_s, "t": f"2026-11-28T12:00:{sent_s:02d}+00:00"}).encode()
        got += [r.watts for r in frames.feed(payload, round(received_s * SECOND))]
    assert got == [10.0, 11.0, 14.0, 16.0]
    assert frames.counts.repeated == 2


def test_a_publishers_clock_that_is_set_costs_a_gap_and_no_more() -> None:
    """As a Tasmota's: of 1970 until it knows the time, and an hour back at the end of summer."""
    frames = MqttFrames(1.0, "w", 1.0, "t", 2.0)
    got = []
    for second in range(60):
        sent_s = second if second < 20 else 1_790_000_000 + second - (3600 if second >= 40 else 0)
        got += frames.feed(json.dumps({"w": second, "t": sent_s}).encode(), (second + 1) * SECOND)
    assert [reading.watts for reading in got] == [*range(40), *range(44, 60)]


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ("broker", r"expected \[mqtts://\]HOST"),
        ("broker/home/#", r"without \+ or #"),
        ("ann:secret@broker/plug", "expected no user or password"),
        ("broker/plug?unit=J", "unit: expected one of W, mW, kW"),
        ("broker/plug?qos=2", "qos: expected one of 0, 1"),
        ("https://broker/plug", "expected mqtt:// or mqtts://, got https://"),
        ("mqtt://broker/plug?ca=lab.pem", "ca: expected mqtts://"),
        ("mqtts://ann:secret@broker/plug", "expected no user or password"),
    ],
)
def test_a_port_that_names_no_single_meter_is_refused(port: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        open_meter("mqtt", port, DeviceClock())


def test_a_missing_library_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(MeterError, match=r"paho-mqtt is not installed .*-m pip install 'paho-mqtt"):
        asyncio.run(open_meter("mqtt", "127.0.0.1:9/plug", DeviceClock()).open())


@pytest.mark.asyncio
async def test_watts_come_from_a_broker_but_not_retained_ones_and_it_may_restart(
    tmp_path: Path,
) -> None:
    pytest.importorskip("paho.mqtt.client")
    broker = Broker(tmp_path)
    meter = open_meter("mqtt", f"127.0.0.1:{broker.port}/home/plug?unit=mW", DeviceClock())
    async with contextlib.aclosing(meter):
        async with broker.running():
            await broker.publish("home/plug", "99000", retain=True)
            await meter.open()
            await broker.publish("home/plug", "2100", "2200")
            await broker.publish("home/other", "5000")
            await broker.publish("home/plug", "2300")
            assert await watts(meter, 3) == pytest.approx([2.1, 2.2, 2.3])
        await items(meter, kind=EventKind.METER_LOST)
        async with broker.running():
            await items(meter, kind=EventKind.METER_DESCRIBED)
            await broker.publish("home/plug", "2400")
            assert await watts(meter, 1) == [2.4]


@pytest.mark.asyncio
async def test_a_login_comes_from_a_file_of_ones_own_and_a_wrong_one_is_said(
    tmp_path: Path,
) -> None:
    pytest.importorskip("paho.mqtt.client")
    broker = Broker(tmp_path, "allow_anonymous false\n")
    login = tmp_path / "login"
    login.write_text("ann:secret\n")
    login.chmod(0o644)
    port = f"127.0.0.1:{broker.port}/plug?login={login}"
    async with broker.running():
        with pytest.raises(MeterError, match=r"others may read .* chmod 600"):
            await open_meter("mqtt", port, DeviceClock()).open()
        login.chmod(0o600)
        with pytest.raises(MeterError, match="the broker refuses: Not authorized") as caught:
            await open_meter("mqtt", port, DeviceClock()).open()
    assert "secret" not in str(caught.value)


@pytest.fixture
def tls_broker(tmp_path: Path) -> Broker:
    """A broker with a certificate for localhost, which knows ann alone; `ca.pem` has signed it."""
    pytest.importorskip("paho.mqtt.client")
    authority = Authority.create("lab")
    authority.issue("localhost").save(tmp_path)
    maker = shutil.which("mosquitto_passwd")
    if maker is None:
        pytest.skip("mosquitto is not installed: make servers")
    subprocess.run([maker, "-c", "-b", tmp_path / "passwords", "ann", "secret"], check=True)
    for name in ("passwords", "key.pem"):
        (tmp_path / name).chmod(0o644)  # mosquitto gives up root's rights before it reads them
    broker = Broker(
        tmp_path,
        f"certfile {tmp_path}/cert.pem\nkeyfile {tmp_path}/key.pem\n"
        f"allow_anonymous false\npassword_file {tmp_path}/passwords\nuser root\n",
    )
    broker.how = {
        "auth": {"username": "ann", "password": "secret"},
        "tls": {"ca_certs": str(tmp_path / "ca.pem")},
    }
    return broker


#: paho leaves the socket of a handshake that failed to the garbage collector.
LEFT_SOCKETS = pytest.mark.filterwarnings("ignore:.*SSLSocket:pytest.PytestUnraisableExceptionWarning")


@LEFT_SOCKETS
@pytest.mark.asyncio
async def test_watts_come_over_tls_and_a_certificate_that_does_not_hold_is_one_sentence(
    tls_broker: Broker, tmp_path: Path
) -> None:
    login, other = tmp_path / "login", tmp_path / "other.pem"
    login.write_text("\ufeffann:secret\r\n", encoding="utf-8")  # as an editor of Windows saves it
    login.chmod(0o600)
    other.write_bytes(Authority.create("other").certificate_pem)

    def meter_at(host: str, ca: str) -> StreamMeter:
        port = f"mqtts://{host}:{tls_broker.port}/plug?login={login}{ca}"
        return open_meter("mqtt", port, DeviceClock())

    async with tls_broker.running():
        async with contextlib.aclosing(meter_at("localhost", f"&ca={tmp_path}/ca.pem")) as meter:
            await meter.open()
            await tls_broker.publish("plug", "2.5")
            assert await watts(meter, 1) == [2.5]
        for host, ca, why in (
            ("localhost", f"&ca={other}", rf"does not hold by {other}: .*issuer certificate"),
            (
                "localhost",
                "",
                r"by the authorities that this machine trusts \(name .* ca=FILE\)",
            ),
            ("127.0.0.1", f"&ca={tmp_path}/ca.pem", "does not hold by .*not valid for '127.0.0.1'"),
            ("localhost", f"&ca={login}", rf"ca: {login}: expected certificates \(PEM\)"),
            ("localhost", f"&ca={tmp_path}/no.pem", r"ca: .*/no.pem: No such file or directory"),
        ):
            with pytest.raises(MeterError, match=why) as caught:
                await meter_at(host, ca).open()
            assert "secret" not in str(caught.value)


@LEFT_SOCKETS
@pytest.mark.asyncio
async def test_a_broker_without_tls_is_said(tmp_path: Path) -> None:
    pytest.importorskip("paho.mqtt.client")
    broker = Broker(tmp_path)
    async with broker.running():
        with pytest.raises(MeterError, match=rf"is port {broker.port} one of TLS\?"):
            await open_meter("mqtt", f"mqtts://127.0.0.1:{broker.port}/plug", DeviceClock()).open()
