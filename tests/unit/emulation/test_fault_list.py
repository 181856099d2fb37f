"""Faults as people spell them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roambench.contract.errors import ConfigError
from roambench.emulation.fault_list import parse_faults
from roambench.emulation.spec import Fault, FaultKind


def test_every_kind_is_spelled_with_its_own_amount():
    assert parse_faults("stall@30:5, drop@60,drop@61:3,skew@1.5:-200,reset@90,second-client@2:4") == (
        Fault(FaultKind.STALL, 30.0, duration_s=5.0),
        Fault(FaultKind.DROP, 60.0),
        Fault(FaultKind.DROP, 61.0, count=3),
        Fault(FaultKind.SKEW, 1.5, ppm=-200.0),
        Fault(FaultKind.RESET, 90.0),
        Fault(FaultKind.SECOND_CLIENT, 2.0, duration_s=4.0),
    )
    assert parse_faults("") == parse_faults("  ") == ()


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_faults(
            "fire@1,stall@30,drop,drop@-1,drop@1:1.5,drop@1:0,reset@1:2,skew@1,off@1:inf,@,noise@1:2:3", "-f"
        )
    kinds = ", ".join(FaultKind)
    assert list(caught.value.problems) == [
        f"-f: 'fire@1': expected one of {kinds}",
        "-f: 'stall@30': stall lasts: expected :SECONDS at the end",
        "-f: 'drop': expected @SECONDS after the kind",
        "-f: 'drop@-1': expected after @ a number of seconds >= 0, got '-1'",
        "-f: 'drop@1:1.5': expected after : a whole number of lines >= 1",
        "-f: 'drop@1:0': expected after : a whole number of lines >= 1, got '0'",
        "-f: 'reset@1:2': reset takes no amount",
        "-f: 'skew@1': skew: expected :PPM at the end",
        "-f: 'off@1:inf': expected after : a number of seconds > 0, got 'inf'",
        "-f: '@': expected KIND@SECONDS or KIND@SECONDS:AMOUNT",
        "-f: 'noise@1:2:3': expected KIND@SECONDS or KIND@SECONDS:AMOUNT",
    ]


@given(st.text(alphabet="stalldrop@:,0123456789.-e nf", max_size=40))
def test_any_text_is_faults_or_a_config_error(text):
    try:
        faults = parse_faults(text)
    except ConfigError:
        return
    assert all(fault.at_s >= 0 for fault in faults)
