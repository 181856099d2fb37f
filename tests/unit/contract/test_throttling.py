"""Throttle bits laid over phases."""

from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import HostSample
from roambench.contract.throttling import throttled_spans

S = 1_000_000_000


def span(start_s: int, end_s: int) -> PhaseSpan:
    return PhaseSpan("pi-01", "boot", Phase.TRAIN, 0, start_s * S, end_s * S)


def sample(at_s: float, bits: int) -> HostSample:
    return HostSample(round(at_s * S), throttle_bits=bits)


PHASES = [span(0, 10), span(10, 20), span(20, 30), span(30, 40)]


def test_a_bit_that_is_set_in_a_sample_flags_its_phase_with_its_name() -> None:
    found = throttled_spans(PHASES, [sample(t, 0b1000 if t == 25 else 0) for t in (2, 8, 15, 21, 25, 29, 35)])
    assert [flag.span for flag in found] == [PHASES[2]]
    assert found[0].names == ("soft temperature limit",)


def test_a_bit_flags_every_phase_up_to_the_next_clean_sample_on_both_sides() -> None:
    """Set at 19 s, clean at 9 s and at 31 s: it may have been set from 9 s to 31 s."""
    found = throttled_spans(PHASES, [sample(9, 0), sample(19, 0b101), sample(31, 0)])
    assert [flag.span for flag in found] == PHASES
    assert {flag.names for flag in found} == {("under-voltage", "throttled")}
    found = throttled_spans(PHASES, [sample(10, 0), sample(19, 0b101), sample(30, 0)])
    assert [flag.span for flag in found] == PHASES[1:3]


def test_a_since_boot_bit_that_appears_between_two_samples_flags_what_lies_between_them() -> None:
    """Nobody saw bit 0 itself; bit 16 says that it was set after 12 s and before 18 s."""
    found = throttled_spans(PHASES, [sample(2, 0), sample(12, 0), sample(18, 1 << 16), sample(35, 1 << 16)])
    assert [(flag.span, flag.bits) for flag in found] == [(PHASES[1], 1)]


def test_what_was_throttled_before_the_first_sample_is_not_held_against_the_run() -> None:
    assert throttled_spans(PHASES, [sample(1, 0b1111 << 16), sample(35, 0b1111 << 16)]) == []


def test_samples_that_do_not_know_say_nothing() -> None:
    assert throttled_spans(PHASES, []) == []
    assert throttled_spans(PHASES, [sample(t, -1) for t in range(40)]) == []
    found = throttled_spans(PHASES, [sample(5, 0), sample(15, -1), sample(25, 0b10)])
    assert [flag.span for flag in found] == PHASES  # clean at 5 s, capped at 25 s: when did it begin?


def test_a_phase_after_the_last_sample_is_judged_by_the_last_one() -> None:
    assert [flag.span for flag in throttled_spans(PHASES, [sample(1, 0), sample(12, 0b10)])] == PHASES
    assert throttled_spans(PHASES, [sample(1, 0b10), sample(2, 0), sample(12, 0)])[-1].span == PHASES[0]
