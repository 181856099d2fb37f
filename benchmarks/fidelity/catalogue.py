"""The worlds by name: what is different in each, whether sums hold there, and else why not.

`holds`: the estimator's assumptions are true. `cause`: what a flag should name where they are not. `seen`:
whether the readings can show it at all.
"""

from __future__ import annotations

from typing import Any

# ruff: noqa: C408


def _rests(guard: float) -> float:
    """The rest whose 0.65 is this guard."""
    return round(guard / 0.65, 3)


_REAL = dict(
    down=dict(
        dead_start=(0.02, 0.06),
        dead_end=(0.01, 0.03),
        burst_s=0.3,
        burst_x=1.5,
        tail=("exp", (0.1, 0.3), 0.5),
    ),
    up=dict(
        dead_start=(0.02, 0.06),
        dead_end=(0.01, 0.03),
        burst_s=0.3,
        burst_x=1.5,
        tail=("exp", (0.1, 0.3), 0.5),
    ),
    train=dict(ramp_s=(0.3, 0.9), warm=0.03),
    wait_w=0.08,
)


def _tail(*tail: Any) -> dict[str, Any]:
    return dict(down=dict(tail=tail), up=dict(tail=tail))


def _both(**k: Any) -> dict[str, Any]:
    return dict(down=dict(k), up=dict(k))


WORLDS: dict[str, dict[str, Any]] = {}


def _w(name: str, desc: str, holds: bool = True, cause: str = "", seen: bool = True, **set_: Any) -> None:
    assert name not in WORLDS, name
    assert holds == (cause == ""), name
    WORLDS[name] = dict(desc=desc, holds=holds, cause=cause, seen=seen, set=set_)


# rows of the page's table
_w("clean_2s", "constant powers, transfers of 2 s, an SP2 at 1 Hz")
_w("clean_2s_60", "the same, 60 rounds", rounds=60)
_w("clean_2s_200", "the same, 200 rounds", rounds=200)
_w("clean_1s", "transfers of 1 s", down_s=1.0, up_s=1.0)
_w("clean_1s_60", "transfers of 1 s, 60 rounds", down_s=1.0, up_s=1.0, rounds=60)
_w("clean_5s", "transfers of 5 s", down_s=5.0, up_s=5.0)
_w("clean_10s", "transfers of 10 s", down_s=10.0, up_s=10.0)
_w("conv_jitter", "conversions jitter by 2 %, no conversion clock to be found", conv_jitter=0.02)
_w("real_board", "dead ends, mild burst, tail, governor, wait draws 0.08 W", **_REAL)
_w("real_board_60", "the same, 60 rounds", rounds=60, **_REAL)
_w("real_board_1s_60", "the same, transfers of 1 s, 60 rounds", rounds=60, down_s=1.0, up_s=1.0, **_REAL)
_w("burst_04", "a burst of 0.4 s at 3 x somewhere in each transfer", **_both(burst_s=0.4))
_w("burst_06_g18", "a burst of 0.6 s at 3 x, guard 1.8 s", rest_s=_rests(1.8), **_both(burst_s=0.6))
_w(
    "burst_start",
    "the burst of 0.5 s at 3 x always at the transfer's start",
    **_both(burst_s=0.5, burst_at=(0.0, 0.02)),
)
_w(
    "window_1055_g18",
    "meter averages 1,055 ms, guard 1.8 s: nearly enough (age + window reach 2.11 s)",
    conv_s=1.055,
    rest_s=_rests(1.8),
)
_w("window_66", "meter averages 66 ms", conv_s=0.066)
_w("window_528", "meter averages 528 ms", conv_s=0.528)
_w("window_1055", "meter averages 1,055 ms (now and then a conversion is printed twice)", conv_s=1.055)
_w(
    "window_1055_short",
    "meter averages 1,055 ms, rests of 2 s: guard 1.3 s is too short",
    False,
    "guard too short",
    conv_s=1.055,
    rest_s=_rests(1.3),
)
_w("ups", "UPS hat, 0.5 s low-pass, guard 2.6 s", board_low_pass=0.5)
_w(
    "ups_g18",
    "UPS hat, guard 1.8 s of rests of 2.8 s: training's remains lift the idle line",
    False,
    "guard too short",
    board_low_pass=0.5,
    rest_s=_rests(1.8),
)
_w(
    "ups_short",
    "UPS hat, guard 1.3 s: too short",
    False,
    "guard too short",
    board_low_pass=0.5,
    rest_s=_rests(1.3),
)
_w("tails_exp", "radio tails, exponential, tau 0.2-0.5 s", **_tail("exp", (0.2, 0.5), 0.6))
_w("tails_box", "radio tails, box, 0.2-1 s", **_tail("box", (0.2, 1.0), 0.6))
_w("tail_drx", "duty-cycled DRX tail of 1-2 s", **_tail("drx", (1.0, 2.0), 0.8))
_w("train_governor", "governor ramps 0.3-1 s at the start of training", train=dict(ramp_s=(0.3, 1.0)))
_w(
    "train_warm_up",
    "training warms up by 10 % and heats the idle by 0.08 W",
    train=dict(warm=0.10),
    heat_w=0.08,
)
_w("train_throttle", "throttling by 20 % somewhere in training", train=dict(throttle=0.2))
_w("late_100", "all lines 100 ms late", late=0.1)
_w("late_load", "lines 60-200 ms late under load", late_load=(0.06, 0.2))
_w("borders_late", "stamps of borders 5-30 ms late", border_late=(0.005, 0.030))
_w("ppm_50", "meter's clock 50 ppm off, no other spread", ppm=50, period_extra=0.0)
_w("idle_flips", "idle flips by 0.2 W, dwells of 15 s on average", idle_flip=(0.2, 15.0))
_w("idle_drift", "idle falls by 0.15 W in 10 minutes", idle_drift=-0.15)
_w("idle_ar_3s", "idle wanders, AR(1) 80 mW, 3 s", idle_noise=0.08, idle_tau=3.0)
_w("idle_ar_20s", "idle wanders, AR(1) 80 mW, 20 s", idle_noise=0.08, idle_tau=20.0)
_w("lost_doubled", "3 % of lines lost, 3 % doubled", lost=0.03, doubled=0.03)
_w("period_jitter", "a line every 0.9-1.3 s", period_jitter=(0.9, 1.3))
_w("sp3", "Smart Power 3 at 10 Hz, 100 ms windows end to end", meter="sp3", period=0.1, rest_s=1.5)
_w(
    "sp3_real",
    "Smart Power 3 at 10 Hz, bursts and tails",
    meter="sp3",
    period=0.1,
    rest_s=2.0,
    down=dict(burst_s=0.3, tail=("box", (0.2, 0.6), 0.5)),
    up=dict(burst_s=0.3, tail=("box", (0.2, 0.6), 0.5)),
)
_w(
    "everything",
    "real board, window 528 ms, 2 % jitter, late lines, lost, doubled, drift, AR(1), heat, late borders",
    conv_s=0.528,
    conv_jitter=0.02,
    late_load=(0.06, 0.2),
    lost=0.02,
    doubled=0.02,
    idle_drift=-0.1,
    idle_noise=0.04,
    idle_tau=3.0,
    heat_w=0.08,
    border_late=(0.005, 0.03),
    **{k: v for k, v in _REAL.items() if k != "wait_w"},
    wait_w=0.1,
)
_w(
    "lte",
    "radio tail of 11.6 s at 0.8 of the transfer's power",
    False,
    "guard too short",
    **_tail("box", (11.5, 11.7), 0.8),
)
_w("wait_015", "waits draw 0.15 W more than idle, with drains of records", wait_w=0.15, drain=(0.4, 0.2))
# new ones
_w("wait_long", "waits of 3-8 s that draw 0.25 W more than idle", wait_s=(3.0, 8.0), wait_w=0.25)
_w("cooling", "training heats: idle 0.12 W higher, cooling with tau 25 s", heat_w=0.12, heat_tau=25.0)
_w(
    "cooling_fast",
    "training heats: idle 0.15 W higher, cooling with tau 5 s (longer than the guard)",
    False,
    "guard too short",
    heat_w=0.15,
    heat_tau=5.0,
)
_w(
    "tail_4s",
    "radio tail of 3-4 s, box, 0.5 of power: a little longer than the guard",
    False,
    "guard too short",
    **_tail("box", (3.0, 4.0), 0.5),
)
_w("tail_exp_2s", "exponential tail, tau 2 s", False, "guard too short", **_tail("exp", 2.0, 0.5))
_w(
    "tail_drx_11s",
    "duty-cycled DRX tail of 11 s",
    False,
    "guard too short",
    **_tail("drx", (10.5, 11.5), 0.8),
)
_w(
    "tail_train",
    "training's tail: a checkpoint is written for 3-5 s at 0.6 W",
    False,
    "guard too short",
    train=dict(tail=("box", (3.0, 5.0), 0.23)),
)
_w(
    "wait_only_tail",
    "background flush after downloads only: tail of 5 s at 0.3 of power",
    False,
    "guard too short",
    down=dict(tail=("box", (4.5, 5.5), 0.3)),
)
_w(
    "promotion",
    "the radio is woken 0.3 s before the start is stamped: the meter's own lateness brings most of it inside",
    down=dict(promotion=((0.25, 0.35), 0.8)),
    up=dict(promotion=((0.25, 0.35), 0.8)),
)
_w(
    "promotion_1s",
    "the radio is woken 0.9-1.1 s before the start is stamped",
    False,
    "power before the start",
    down=dict(promotion=((0.9, 1.1), 0.8)),
    up=dict(promotion=((0.9, 1.1), 0.8)),
)
_w(
    "promotion_in",
    "the radio's promotion of 0.26 s at 0.5 of power inside the span",
    **_both(dead_start=0.26, dead_level=0.5),
)
_w(
    "dead_300",
    "each side waits 0.1-0.4 s for the other, at idle power",
    **_both(dead_start=(0.1, 0.4), dead_end=(0.1, 0.4)),
)
_w("duty_03", "training in steps of 0.3 s, half on", train=dict(duty_s=0.3, duty_free=True))
_w("duty_07", "training in steps of 0.7 s", train=dict(duty_s=0.7))
_w(
    "duty_1s",
    "training in steps of 1.0 s that restart with each training: beats with the meter",
    train=dict(duty_s=1.0),
)
_w("duty_3s", "training in steps of 3 s (batches and loading)", train=dict(duty_s=3.0, duty_free=True))
_w(
    "duty_1s_clock",
    "training in steps of exactly 1 s of wall clock, meter's second is exact too",
    False,
    "load beats with the meter",
    seen=False,
    train=dict(duty_s=1.0, duty_clock=True),
    ppm=0,
    period_extra=0.0,
)
_w("duty_transfer", "transfers in steps of 0.5 s, half on", **_both(duty_s=0.5))
_w("gc_train", "card garbage collection in training, 1 W for 0.12 s, once in 2 s", train=dict(gc_rate=0.5))
_w(
    "gc_idle",
    "bursts in idle and everywhere: 1 W for 0.12 s, once in 5 s on average",
    idle_pulse=(1.0, 0.12, -5.0),
)
_w("idle_cron", "a background job draws 0.3 W for 1.5 s every 10 s", idle_pulse=(0.3, 1.5, 10.0))
_w("idle_cron_60", "a background job draws 1.0 W for 6 s every 60 s", idle_pulse=(1.0, 6.0, 60.0))
_w(
    "rest_heartbeat",
    "the agent reports in every rest, just before it ends: 0.3 W for 0.4 s",
    False,
    "rests not quiet",
    rest_pulse=(0.3, 0.4, 0.75),
)
_w(
    "rest_busy",
    "the board never reaches its deep idle between phases: +0.10 W from the first step to the last",
    rest_w=0.10,
)
_w("lost_10", "10 % of lines lost at random", False, "time not covered", lost=0.10)
_w("lost_load_20", "20 % of lines lost, under load only", False, "lines lost or late", lost_load=0.20)
_w("lost_load_50", "half of the lines lost, under load only", False, "lines lost or late", lost_load=0.50)
_w("gaps", "the meter is silent for 6 s three times (a reset)", False, "time not covered", gap=(3, 6.0))
_w(
    "hold_1s",
    "the reader is starved for up to 1 s in half of the loads, then all lines at once",
    hold=(0.5, 1.0),
)
_w("hold_5s", "the reader is starved for 2.5-5 s in half of the loads", False, "lines late", hold=(0.5, 5.0))
_w("catch_up", "the meter's loop stalls now and then for 2-3 lines and catches up", catch_up=0.02)
_w("late_1s_load", "lines 0.7-1.2 s late under load", False, "lines lost or late", late_load=(0.7, 1.2))
_w("clock_plus", "meter read on another host whose clock is 0.3 s ahead", clock_offset=0.3)
_w(
    "clock_minus",
    "meter read on another host whose clock is 0.6 s behind",
    False,
    "clocks apart",
    clock_offset=-0.6,
)
_w(
    "frozen",
    "the meter repeats its last values for 1-3 minutes, twice",
    False,
    "meter frozen",
    frozen=(2, (60.0, 180.0)),
)
_w(
    "frozen_short",
    "the meter repeats its last values for 8-15 s, six times",
    False,
    "meter frozen",
    frozen=(6, (8.0, 15.0)),
)
_w("gain_const", "gain +1.4 % on a meter never calibrated (u of gain 1.45 %)", gain=0.014, gain_u=0.0145)
_w(
    "gain_nonlin_w",
    "gain +0.4 % above 3 W, in the printed watts only (V x I tells)",
    False,
    "gain not linear",
    seen=False,
    nonlin=0.004,
    nonlin_watts_only=True,
)
_w(
    "gain_nonlin",
    "gain +0.4 % above 3 W, in current and power alike: nothing in the data tells",
    False,
    "gain not linear",
    seen=False,
    nonlin=0.004,
)
_w("gain_heat", "gain +0.5 % while the meter is warm from training", gain_heat=0.005, gain_u=0.003)
_w("gain_drift", "gain drifts by 0.6 % over the run", gain_drift=0.006, gain_u=0.003)
_w("offset", "offset of +25 mW on every reading", False, "offset", seen=False, offset=0.025)
_w(
    "coarse",
    "a plug that shows steps of 0.1 W, 1 Hz",
    False,
    "resolution too coarse",
    meter="generic",
    window_s=1.0,
    lsb=0.1,
)
_w("coarse_30", "a plug that shows steps of 0.03 W, 1 Hz", meter="generic", window_s=1.0, lsb=0.03)
_w("generic_1hz", "generic 1 Hz meter that averages the whole second", meter="generic", window_s=1.0)
_w("generic_1hz_point", "generic 1 Hz meter that looks for 10 ms only", meter="generic", window_s=0.01)
_w("generic_2hz", "generic 2 Hz meter, averages 0.5 s", meter="generic", period=0.5)
_w("generic_5hz", "generic 5 Hz meter, averages 0.2 s, rests of 2 s", meter="generic", period=0.2, rest_s=2.0)
_w(
    "generic_ema",
    "generic 1 Hz meter with its own exponential average, tau 1.5 s",
    False,
    "guard too short",
    meter="generic",
    window_s=0.1,
    meter_low_pass=1.5,
)
_w(
    "generic_ema_r12",
    "the same with rests of 12 s: guard 7.8 s is 5 tau, training's remains still lift the idle by 10 mW",
    meter="generic",
    window_s=0.1,
    meter_low_pass=1.5,
    rest_s=12.0,
)
_w(
    "generic_ema_r18",
    "the same with rests of 18 s",
    meter="generic",
    window_s=0.1,
    meter_low_pass=1.5,
    rest_s=18.0,
)
_w("period_2s", "meter prints every 2 s (dither of 1 s only)", period=2.0, period_extra=0.0)
_w(
    "period_2s_locked",
    "meter prints every 2 s exactly, steps start at even seconds, constant durations",
    False,
    "offsets locked",
    period=2.0,
    period_extra=0.0,
    ppm=0,
    lock_s=2.0,
    spread=0.0,
    train_spread=0.0,
    wait_s=0.5,
    down_s=2.7,
    up_s=3.3,
    train_s=9.0,
)
_w(
    "locked",
    "steps start at whole seconds, durations constant, meter's second is exact: the same offsets for ever",
    False,
    "offsets locked",
    lock_s=1.0,
    spread=0.0,
    train_spread=0.0,
    wait_s=0.5,
    ppm=0,
    period_extra=0.0,
    down_s=1.6,
    up_s=2.4,
)
_w(
    "locked_burst",
    "locked to the meter, with bursts of 0.5 s at the start",
    False,
    "offsets locked",
    lock_s=1.0,
    spread=0.0,
    train_spread=0.0,
    wait_s=0.5,
    ppm=0,
    period_extra=0.0,
    **_both(burst_s=0.5, burst_at=(0.0, 0.0)),
)
_w(
    "locked_slow",
    "locked, but the meter's second is 50 ppm long: offsets crawl by 30 ms in the run",
    False,
    "offsets locked",
    lock_s=1.0,
    spread=0.0,
    train_spread=0.0,
    wait_s=0.5,
    ppm=50,
    period_extra=0.0,
    down_s=1.6,
    up_s=2.4,
)
_w(
    "period_skew",
    "four lines of five 1.0 s apart, the fifth 1.6 s: mean spacing is not the median",
    skew=(0.2, 1.6),
)
_w(
    "sp3_skew",
    "SP3 whose 100 ms are 130 ms every third time (windows follow)",
    meter="sp3",
    period=0.1,
    rest_s=2.0,
    skew=(0.33, 1.3),
)
_w("short_03", "transfers of 0.3 s", down_s=0.3, up_s=0.3)
_w("short_03_200", "transfers of 0.3 s, 200 rounds", down_s=0.3, up_s=0.3, rounds=200)
_w("long_30", "transfers of 30 s, 12 rounds", down_s=30.0, up_s=30.0, rounds=12)
_w("rounds_3", "3 rounds only", rounds=3)
_w("rounds_3_1s", "3 rounds of 1 s transfers", rounds=3, down_s=1.0, up_s=1.0)
_w("two_rates", "transfers of very different durations (0.5-3.5 s)", spread=0.75)
_w(
    "train_60",
    "trainings of 60 s that heat the idle by 0.12 W, tau 40 s, 10 rounds",
    train_s=60.0,
    heat_w=0.12,
    heat_tau=40.0,
    rounds=10,
)
_w("peers", "peers' exchanges: two a step, no download or upload", order="peers")
_w(
    "peers_real",
    "peers' exchanges with dead ends of 0.1-0.4 s and tails",
    order="peers",
    exchange=dict(dead_start=(0.1, 0.4), dead_end=(0.05, 0.2), tail=("exp", (0.1, 0.4), 0.5)),
)
_w(
    "peers_lte",
    "peers' exchanges with a tail of 11.6 s",
    False,
    "guard too short",
    order="peers",
    exchange=dict(tail=("box", 11.6, 0.8)),
)
