"""A comparison on a bench: one lease over all of it, and every run hears what the user waived."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benches import bench_of
from roambench.contract.json_values import from_file
from roambench.provision.leases.holding import LEASE_VARIABLE, holding, standing_of
from roambench.runner.bench_options import BenchOptions
from roambench.study.ab.ab_plan import AbPlan, Asked, plan_ab
from roambench.study.campaign.bench_actions import bench_temperatures
from roambench.study.campaign.campaign import lease_of
from roambench.study.campaign.campaign_log import CampaignLog
from roambench.study.sweep.sweep_folder import PointFile, SweepFolder
from ssh_server import SshServer, free_port, ssh_server

EXPERIMENT = 'systems = ["mohawk"]\ntrace = { parameters = { devices = 40, steps = 48 }, steps = 6 }\n'


def plan_on(folder: Path, fleet: str) -> AbPlan:
    path = folder / "t.toml"
    path.write_text(EXPERIMENT)
    return plan_ab(Asked(path, path, fleet, 2, changes_b=('systems=["hierfavg"]',)))


def test_the_bench_is_held_from_the_first_run_to_the_last(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, '[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nmeter.driver = "none"\n')
    log = CampaignLog(tmp_path, lambda row: None)
    ours = lease_of(f"bench:{bench.file}", "ab mohawk against hierfavg", 0.0, log)
    with ours(print):
        holder = standing_of(bench).holder
        assert holder is not None
        assert (holder.purpose, holder.pid) == ("ab mohawk against hierfavg", os.getpid())
        assert str(holder.number) == os.environ[LEASE_VARIABLE].split()[0]  # what its runs inherit
        with holding(bench, "run", print):
            assert standing_of(bench).waiting == ()
    assert standing_of(bench).holder is None


def test_another_fleet_needs_no_lease(tmp_path: Path) -> None:
    with lease_of("rehearsal", "ab", 0.0, CampaignLog(tmp_path, lambda row: None))(print):
        assert LEASE_VARIABLE not in os.environ


def test_every_run_is_told_what_was_waived(tmp_path: Path) -> None:
    options = BenchOptions(("rack1",), preflight=False, unproven=True, wait_s=5.0)
    turn = plan_on(tmp_path, "bench:b.toml").turns[0]
    folder = SweepFolder(tmp_path / "out", options).prepare(turn.point, 0)
    assert from_file(PointFile, folder / "point.json").bench == options
    plain = SweepFolder(tmp_path / "plain").prepare(turn.point, 0)
    assert from_file(PointFile, plain / "point.json").bench is None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path) as running:
        yield running


def test_hosts_without_a_sensor_or_an_answer_have_no_temperature(server: SshServer, tmp_path: Path) -> None:
    hosts = "".join(
        f'[[hosts]]\nname = "pi-0{n}"\naddress = "127.0.0.1"\nssh_user = "root"\nssh_port = {port}\n'
        f'ssh_key = "{server.client_key}"\nmeter.driver = "none"\n'
        for n, port in ((1, server.port), (2, free_port()))
    )
    bench = bench_of(tmp_path, hosts)
    found = bench_temperatures(bench, bench.hosts)
    assert found.keys() <= {"pi-01"}
    assert all(0.0 < celsius < 150.0 for celsius in found.values())
