"""A bench's known_hosts: what OpenSSH's own tools write, what editors and power cuts leave of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import paramiko
import pytest

from roambench.contract.errors import IdentityError
from roambench.provision.ssh.known_hosts import KnownHosts


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, paramiko.PKey]:
    """By host, of each kind that sshd has."""
    folder = tmp_path_factory.mktemp("keys")
    found = {}
    for number, kind in enumerate(("ed25519", "ecdsa", "rsa"), start=1):
        path = folder / kind
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(path)], check=True)
        found[f"10.0.0.{number}"] = paramiko.PKey.from_path(path)
    return found


def known(path: Path) -> dict[str, paramiko.PKey]:
    found = KnownHosts(path).keys()
    return {name: next(iter(found[name].values())) for name in found}


def test_a_file_cut_at_any_byte_costs_at_most_the_key_that_it_hits(
    tmp_path: Path, keys: dict[str, paramiko.PKey]
) -> None:
    """Half a key is never taken for a key: its host would be called another one."""
    path = tmp_path / "known_hosts"
    for name, key in keys.items():
        KnownHosts(path).record(name, key)
    content = path.read_bytes()
    ends = [at for at in range(len(content)) if content[at : at + 1] == b"\n"]
    new = paramiko.ECDSAKey.generate()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = {name: key for end, (name, key) in zip(ends, keys.items(), strict=True) if cut >= end}
        assert known(path) == whole, cut
        if cut % 7 and cut not in ends:
            continue  # each takes an fsync
        KnownHosts(path).record("[10.0.0.9]:2222", new)
        assert known(path) == {**whole, "[10.0.0.9]:2222": new}, cut


def test_openssh_reads_what_is_recorded_behind_a_truncated_line(
    tmp_path: Path, keys: dict[str, paramiko.PKey]
) -> None:
    path = tmp_path / "known_hosts"
    (first, key), (second, other), _ = keys.items()
    KnownHosts(path).record(first, key)
    path.write_bytes(path.read_bytes()[:-21])
    KnownHosts(path).record(second, other)
    found = subprocess.run(["ssh-keygen", "-F", second, "-f", str(path)], capture_output=True, check=True)
    assert other.get_base64() in found.stdout.decode()
    subprocess.run(["ssh-keygen", "-R", second, "-f", str(path)], capture_output=True, check=True)
    assert known(path) == {}


def test_what_people_wrote_into_it_stays(tmp_path: Path, keys: dict[str, paramiko.PKey]) -> None:
    path = tmp_path / "known_hosts"
    (first, key), (second, other), (third, last) = keys.items()
    own = (
        f"# rack 1\r\n\n{first},pi-01 {key.get_name()} {key.get_base64()} added by ann\n"
        f"sk.lan sk-ssh-ed25519@openssh.com AAAA\n@revoked x.lan ssh-rsa AAAAB\n"
        f"{second} {other.get_name()} {other.get_base64()}"  # an editor that ends no last line
    )
    path.write_text(own, newline="")
    subprocess.run(["ssh-keygen", "-H", "-f", str(path)], capture_output=True, check=True)  # hashed names
    before = path.read_text()
    KnownHosts(path).record(third, last)
    assert path.read_text().startswith(before)
    found = KnownHosts(path).keys()
    for name, of in [(first, key), ("pi-01", key), (second, other), (third, last)]:
        assert found.check(name, of), name


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").mkdir()
    with pytest.raises(IdentityError, match="known_hosts: host keys cannot be read"):
        KnownHosts(tmp_path / "known_hosts").keys()
