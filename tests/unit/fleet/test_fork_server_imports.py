"""What a fork server imports for its agents: all that they share, and never grpc."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from samples import sampled

_FORK_SERVER = """
import json, sys
from roambench.agent.life.launch import load_trainer
from roambench.agent.settings import AgentSettings, MeterSettings
from roambench.fleet.agent_fork_server import import_for

controller, meter = sys.argv[1:]
if controller:
    load_trainer()
import_for([AgentSettings("pi-01", controller, meter=MeterSettings(meter, "/dev/ttyUSB0"))])
shared = set(sys.modules)
import roambench.agent.readings.meter_logger
if controller:
    import roambench.agent.life.process
    from roambench.meters.catalogue import METERS
    METERS.load(meter)
print(json.dumps([sorted(shared), sorted(set(sys.modules) - shared)]))
"""


@cache
def imported(controller: str, meter: str) -> tuple[set[str], set[str]]:
    """The modules that a fork server has, and those that its agent imports on its own."""
    words = [sys.executable, "-c", _FORK_SERVER, controller, meter]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    shared, own = json.loads(done.stdout)
    return set(shared), set(own)


_ONE_BY_ONE = (
    _FORK_SERVER.split("shared =")[0]
    + """
import importlib, os
for name in json.loads(sys.stdin.read()):
    if os.fork() == 0:
        importlib.import_module(name)
        os._exit("grpc" in sys.modules)
    if os.wait()[1] == 0:
        print(name)
"""
)


def free_of_grpc(modules: set[str], meter: str) -> list[str]:
    """Those of `modules` that a fork server could import, too: they do not bring grpc with them."""
    words = [sys.executable, "-c", _ONE_BY_ONE, "127.0.0.1:50051", meter]
    done = subprocess.run(
        words, input=json.dumps(sorted(modules)), capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def packages(modules: set[str]) -> set[str]:
    return {module.split(".")[0] for module in modules}


#: The same of both is imported once.
each_meter = pytest.mark.parametrize(
    "meter", sampled(["smartpower3-udp"], ["smartpower2", "smartpower3-udp"])
)


@each_meter
def test_an_agent_imports_no_library_but_grpc_on_its_own(meter: str) -> None:
    shared, own = imported("127.0.0.1:50051", meter)
    assert "grpc" not in shared
    assert {"torch", "cryptography", "psutil", "google"} <= packages(shared)
    of_grpc = {name for name in packages(own) if name.startswith(("grpc", "_cython", "cython"))}
    assert packages(own) - of_grpc == {"roambench"}
    assert {"numpy.random", "cryptography.hazmat.backends.openssl"} <= shared  # imported late, by every agent


@each_meter
def test_modules_that_do_not_need_grpc_are_imported_once_for_all_agents(meter: str) -> None:
    _, own = imported("127.0.0.1:50051", meter)
    ours = {name for name in own if name.startswith("roambench")}
    loggers_alone = ["roambench.agent.readings.meter_logger"]
    assert free_of_grpc(ours, meter) == loggers_alone


def test_a_meter_logger_shares_neither_torch_nor_certificates() -> None:
    shared, own = imported("", "smartpower2")
    assert packages(shared) & {"grpc", "torch", "cryptography"} == set()
    assert own == {"roambench.agent.readings.meter_logger"}


def test_a_meter_that_nobody_knows_is_the_agents_to_report() -> None:
    assert "grpc" not in imported("", "no-such-meter")[0]
