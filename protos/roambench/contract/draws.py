"""Keyed randomness: every draw is fixed by (seed, purpose, device, step), never by a global generator."""

from __future__ import annotations

import hashlib

import numpy as np


def draw_key(seed: int, purpose: str, device: int = 0, step: int = 0) -> int:
    """A 64-bit key for one draw; equal arguments give equal keys on every machine and Python."""
    text = f"{seed}/{purpose}/{device}/{step}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def generator(seed: int, purpose: str, device: int = 0, step: int = 0) -> np.random.Generator:
    """The NumPy generator (PCG64) of one draw."""
    return np.random.Generator(np.random.PCG64(draw_key(seed, purpose, device, step)))
