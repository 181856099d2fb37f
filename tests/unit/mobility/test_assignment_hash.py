from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from roambench.mobility.association import FixedAp, NearestAp, RingWalkAp, assignment_hash, hash_of_steps

FIXES = [(0, 0, 10.0, 0.0), (0, 2, 900.0, 0.0), (2, 1, 20.0, 0.0)]
APS = [(0.0, 0.0), (1000.0, 0.0)]


def test_it_is_that_of_counts_devices_and_aps_as_little_endian_numbers(make_trace):
    trace = make_trace(FIXES, APS, devices=3, steps=3)
    text = "0200000000000000 00000000 02000000 00000000 01000000"  # step 0: devices 0, 2 at APs 0, 1
    text += "0000000000000000"  # step 1
    text += "0100000000000000 01000000 00000000"  # step 2: device 1 at AP 0
    expected = hashlib.blake2b(bytes.fromhex(text), digest_size=32).hexdigest()
    assert assignment_hash(NearestAp(trace)) == expected
    assert hash_of_steps([((0, 2), (0, 1)), ((), ()), ((1,), (0,))]) == expected


def test_it_is_the_assignment_that_counts_not_the_metres(make_trace):
    trace = make_trace(FIXES, APS, devices=3, steps=3)
    nearby = replace(trace, x_m=trace.x_m + 1.0)
    assert assignment_hash(NearestAp(nearby)) == assignment_hash(NearestAp(trace))
    moved = replace(trace, x_m=np.array([10.0, 400.0, 20.0]))
    assert assignment_hash(NearestAp(moved)) != assignment_hash(NearestAp(trace))
    longer = replace(trace, steps=4)
    assert assignment_hash(NearestAp(longer)) != assignment_hash(NearestAp(trace))


def test_rules_and_seeds_give_other_worlds(make_trace):
    fixes = [(step, device, 10.0, 0.0) for step in range(6) for device in range(4)]
    trace = make_trace(fixes, APS, devices=4, steps=6)
    hashes = {assignment_hash(rule) for rule in (NearestAp(trace), FixedAp(trace))}
    hashes |= {assignment_hash(RingWalkAp(trace, seed)) for seed in (1, 2)}
    assert len(hashes) == 4
