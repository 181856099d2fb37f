"""A real sshd, one for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssh_server import SshServer, ssh_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running
