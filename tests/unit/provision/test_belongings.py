"""What a dead board's card gives: who the board was, and its state without the training data."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.provision.replacing import from_card


def test_a_card_gives_the_machine_and_its_state_but_no_training_data_and_no_links(tmp_path: Path):
    state = tmp_path / "var/lib/roambench"
    (state / "model-cache").mkdir(parents=True)
    (state / "shards").mkdir()
    (state / "model-cache/trained.json").write_text("{}")
    (state / "shards/abc").write_bytes(b"data")
    (state / "spool.sqlite").write_bytes(b"spool")
    (state / "passwords").symlink_to("/etc/shadow")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("ab" * 16 + "\n")
    found = from_card("pi2", tmp_path)
    assert found.machine_id == "ab" * 16
    assert found.note.startswith("pi2's card handed over 0.0 MB")
    with tarfile.open(fileobj=io.BytesIO(found.state)) as tar:
        assert sorted(tar.getnames()) == ["./model-cache", "./model-cache/trained.json", "./spool.sqlite"]
        spool = tar.extractfile("./spool.sqlite")
        assert spool is not None
        assert spool.read() == b"spool"


def test_a_folder_that_is_no_boards_card_is_an_error_that_says_what_is_missing(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"--card .*: no .*etc/machine-id: expected the root of pi2's card"):
        from_card("pi2", tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("ab" * 16)
    with pytest.raises(ConfigError, match=r"--card .*: no .*var/lib/roambench"):
        from_card("pi2", tmp_path)


@pytest.mark.parametrize("name", ["etc", "etc/machine-id", "var", "var/lib", "var/lib/roambench"])
def test_a_link_on_the_card_does_not_lead_into_this_machine(tmp_path: Path, name: str):
    """The card is a board's that may have been taken over, and the command root's."""
    card, own = tmp_path / "card", tmp_path / "own"
    for root in (card, own):
        (root / "var/lib/roambench").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "etc/machine-id").write_text("ab" * 16)
    (own / "var/lib/roambench/id_ed25519").write_text("the controller's own")
    link = card / name
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(own / name)
    with pytest.raises(ConfigError, match=f"{name} is a link: no provisioned board has one there"):
        from_card("pi2", card)
