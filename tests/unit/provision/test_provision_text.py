"""What a dry run prints: equal plans once, and of files only what would change."""

from __future__ import annotations

from pathlib import Path

from benches import bench_of
from roambench.cli.fleet.provision_text import plans_text
from roambench.provision.provisioning import Provisioned
from roambench.provision.ssh.hosts import HostOutcome
from roambench.provision.step import HostPlan, HostStep, RemoteFile, Skip
from roambench.provision.wheels.agent_build import AgentBuild
from roambench.provision.wheels.wheelhouse import Wheelhouse


def test_equal_plans_are_shown_once_with_what_would_change_and_no_secret(tmp_path: Path) -> None:
    names = ["pi-1", "pi-10", "pi-2", "odd"]
    bench = bench_of(
        tmp_path,
        "".join(
            f'[[hosts]]\nname = "{name}"\naddress = "10.0.0.{number}"\nmeter.driver = "none"\n'
            for number, name in enumerate(names, start=1)
        ),
    )
    build = AgentBuild(
        "code", tmp_path / "a.whl", "0.2.0", Wheelhouse("aarch64", "3.11", "house", tmp_path, ())
    )

    def planned(name: str) -> Provisioned:
        settings = RemoteFile("/etc/agent.json", f"name: {name}\nport: 2\n\x1b[2J\n".encode(), 0o640)
        key = RemoteFile("/etc/key.pem", b"geheim", 0o600, secret=True)
        steps = [HostStep("settings", f"/etc/agent.json of {name} differs", "true\n", files=(settings, key))]
        if name == "odd":
            steps.append(HostStep("clock", "no time server", "systemctl restart x"))
        skips = (Skip("meter", "it has none"),)
        before = {"/etc/agent.json": f"name: {name}\nport: 1\n\x1b[2J\n".encode(), "/etc/key.pem": b"alt"}
        return Provisioned(build, HostPlan(tuple(steps), skips), 0.1, before)

    outcomes = [HostOutcome(host, planned(host.name)) for host in bench.hosts]
    lost = HostOutcome(bench.hosts[0], None, "no answer")
    assert plans_text([*outcomes, lost]).splitlines() == [
        f"pi-1, pi-10, pi-2 (3 hosts): build {build.hash}, 1 step",
        "  1. settings: /etc/agent.json of HOST differs",
        "       write /etc/agent.json (0640 root:root)",
        "       @@ -1,3 +1,3 @@",
        "        name: HOST",
        "       -port: 1",
        "       +port: 2",
        "        ?[2J",
        "       write /etc/key.pem (0600 root:root, secret)",
        "       # true",
        "  -  meter: not applicable here: it has none",
        f"odd: build {build.hash}, 2 steps",
        "  1. settings: /etc/agent.json of HOST differs",
        "       write /etc/agent.json (0640 root:root)",
        "       @@ -1,3 +1,3 @@",
        "        name: HOST",
        "       -port: 1",
        "       +port: 2",
        "        ?[2J",
        "       write /etc/key.pem (0600 root:root, secret)",
        "       # true",
        "  2. clock: no time server",
        "       # systemctl restart x",
        "  -  meter: not applicable here: it has none",
    ]
