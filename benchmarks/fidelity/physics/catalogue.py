"""All worlds by name."""

from functools import partial

from fidelity.physics import effects, shapes
from fidelity.physics.board import World
from fidelity.physics.meters import Link

_LOCKED = "Rounds start at clock:20."

WORLDS = {
    world.name: world
    for world in (
        *(World(f"clean-{s:g}s", transfer_s=s) for s in (2.0, 1.0, 0.5)),
        *(World(f"dead-{s:g}s", shapes.dead, transfer_s=s) for s in (2.0, 1.0, 0.5)),
        *(World(f"burst-{s:g}s", shapes.burst, transfer_s=s) for s in (2.0, 1.0, 0.6, 0.5)),
        *(World(f"end-burst-{s:g}s", shapes.hashed, transfer_s=s) for s in (2.0, 1.0)),
        *(World(f"server-thinks-{s:g}s", shapes.pondered, transfer_s=s) for s in (2.0, 1.0)),
        *(World(f"slow-start-{s:g}s", shapes.slow_start, transfer_s=s) for s in (2.0, 1.0)),
        World("fading", shapes.fading),
        World("retransmissions", shapes.paused),
        World("bandwidth", shapes.at_rate),
        World("rate-hops", shapes.hopping),
        World("train-ramp", train=shapes.ramp),
        World("train-late-clock", train=shapes.late_clock),
        World("end-burst-late-clock", shapes.hashed, shapes.late_clock, transfer_s=1.0),
        World("train-dips", train=shapes.dips),
        World("train-throttled", train=shapes.throttled),
        World("train-undervolted", train=shapes.undervolted),
        World("train-batches", train=shapes.batches),
        World("train-loading", train=shapes.loading),
        World("train-checkpoint", train=shapes.checkpointed),
        World("train-epochs", train=shapes.epochs),
        World("radio-tail", effects=(effects.radio_tail,)),
        World("radio-awake", effects=(effects.awake,)),
        World("wifi-scan", effects=(effects.scanning,)),
        World("autosuspend", effects=(effects.autosuspend,)),
        World("train-spins-on", effects=(effects.spinning,)),
        World("card-tidies", effects=(effects.card_tidies,)),
        World("writeback", effects=(effects.writeback,)),
        World("lte", shapes.promoted, effects=(effects.lte_tail,)),
        World("stepped-clock", shapes.stepped_clock, shapes.late_clock, (effects.clock_tail,)),
        World("wait-above-idle", effects=(effects.listening,)),
        World("absent-searching", effects=(effects.searching,)),
        World("idle-warming", effects=(effects.warming,)),
        World(
            "idle-correlated", effects=(partial(effects.wander, 0.08, 20.0),), note="AR(1) of 80 mW, 20 s."
        ),
        World("idle-telegraph", effects=(effects.telegraph,)),
        World("self-heating", effects=(effects.self_heating,)),
        World("fan", effects=(effects.fan,)),
        World("beacons", effects=(effects.beacons,)),
        World("polling", effects=(effects.polling,)),
        World("observing", effects=(effects.observing,)),
        World("locked", note=_LOCKED, lock_s=20.0),
        World("locked-dead", shapes.dead, note=_LOCKED, transfer_s=1.0, lock_s=20.0),
        World("locked-burst", shapes.burst, note=_LOCKED, lock_s=20.0),
        World(
            "locked-lte", shapes.promoted, shapes.late_clock, (effects.lte_tail,), note=_LOCKED, lock_s=20.0
        ),
        World("late-borders", note="Borders stamped 5-30 ms late.", stamp_late_s=(0.005, 0.03)),
        World("clock-50ppm", note="The meter's timer is off by 50 ppm.", link=Link(ppm=(50, 50))),
        World("line-jitter", note="Lines 0.9-1.3 s apart.", link=Link(interval=(0.9, 1.3))),
        World("late-100ms", note="Lines come 100 ms late.", link=Link(lateness_s=0.1)),
        World("lost-and-doubled", note="5 % of lines lost, 3 % double.", link=Link(lost=0.05, doubled=0.03)),
        World("outages", note="Four times no line for 5 s.", link=Link(outages=4)),
        World("stalls", note="Six times no line for 2-4 s, then all at once.", link=Link(stalls=6)),
        World("gain", note="Gain off by 2 %, zero by 17 mW at most.", link=Link(gain=0.02, offset_w=0.017)),
        World("conversion-wander", note="The chip's clock drifts 1000 ppm.", link=Link(conversion_ppm=1000)),
        World("other-host", note="Stamps off by up to 20 ms, new every 2 min.", link=Link(other_host_s=0.02)),
        World(
            "everything",
            shapes.messy,
            shapes.ramp,
            (effects.radio_tail, effects.listening, effects.warming, partial(effects.wander, 0.03, 20.0)),
            note="Idle wanders by 30 mW; lines jitter, are late, lost or double; borders are late.",
            stamp_late_s=(0.005, 0.03),
            link=Link((30, 50), (0.95, 1.1), lateness_s=0.03, lost=0.02, doubled=0.02, outages=1),
        ),
    )
}
