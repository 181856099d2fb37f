"""A decentralised experiment as its file says it: five virtual devices, two of which move."""

from __future__ import annotations

from pathlib import Path

PEERS = """
name = "peers"
systems = ["d_psgd", "metropolis_hastings"]
fleet = { agents = 5 }
learning = { dataset = "digits", model = "mlp", images_per_device = 20 }
decentralised = { iterations = 4, evaluate_every = 2, half_step = "full_batch" }
mobility = { model = "dcm", mobile = 2, grid = 6 }
simulated = { workers = 1 }
"""


def peers_file(folder: Path, text: str = PEERS) -> Path:
    """`text` as `peers.toml` in the folder."""
    path = folder / "peers.toml"
    path.write_text(text)
    return path
