"""The servers that other tests stand on: they are real, and they are what their fixtures say."""

import urllib.request
from pathlib import Path

import pytest

from influx_servers import Influxd, Server, Shim, VictoriaMetrics, binary, free_port, running


def post(url: str, body: bytes) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, body, method="POST")) as reply:
        return int(reply.status)


def test_a_point_written_by_version_2_through_the_shim_is_read_back_to_the_nanosecond(
    influxd: Influxd, influx_shim: Shim
):
    influxd.create_database("bench")
    url = f"{influx_shim.url}/api/v2/write?org=o&bucket=bench&precision=ns"
    before = len(influx_shim.requests())
    assert post(url, b"power,device=pi-01 watts=1.5,seq=7i 1700000000123456789") == 204
    (row,) = influxd.rows('SELECT * FROM "power"', "bench")
    assert row == {"time": 1700000000123456789, "device": "pi-01", "watts": 1.5, "seq": 7}
    assert len(influx_shim.requests()) == before + 1


def test_what_influxd_answered_204_survives_its_sigkill(influxd: Influxd, influx_shim: Shim):
    influxd.create_database("durable")
    url = f"{influx_shim.url}/api/v2/write?org=o&bucket=durable&precision=ns"
    assert post(url, b"\n".join(b"power,device=a watts=%d.0 %d" % (i, 10**18 + i) for i in range(50))) == 204
    influxd.kill()
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(url, b"power,device=a watts=1.0 1")
    assert refused.value.code == 503
    refused.value.close()
    influxd.start()
    assert len(influxd.rows('SELECT "watts" FROM "power"', "durable")) == 50


def test_victoria_metrics_takes_version_2_writes_and_cuts_the_stamp_to_milliseconds(
    victoria_metrics: VictoriaMetrics,
):
    url = f"{victoria_metrics.url}/api/v2/write?org=o&bucket=any&precision=ns"
    assert post(url, b"power,device=vm watts=2.5 1700000000123456789") == 204
    (series,) = victoria_metrics.export('{device="vm"}')
    assert (series["metric"]["__name__"], series["values"]) == ("power_watts", [2.5])
    assert series["timestamps"] == [1700000000123]


class NoSuchServer(Server):
    def command(self) -> list[str]:
        return [binary("no-such-server")]


def test_without_a_server_a_laptop_skips_and_ci_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    server = NoSuchServer(tmp_path, free_port())
    missing = "no-such-server is not installed: sudo apt-get install"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=missing), running(server):
        pass
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=missing), running(server):
        pass
