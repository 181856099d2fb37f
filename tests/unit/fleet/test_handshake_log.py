"""What gRPC's core writes of handshakes is read back, and nothing else changes."""

import os
import subprocess
import sys

import pytest

from roambench.fleet.handshake_log import FailedHandshake, _failure

#: As the core of gRPC 1.85 writes it, but for most of its arguments.
MESSAGE = """\
I1121 21:37:15.570430   20423 handshaker.cc:155] CallNextHandshakerLocked: error=UNKNOWN: Ssl handshake \
failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:{what}: OK
=== Source Location Trace: ===
src/core/util/status_helper.cc:68
 shutdown=false index=2, args={{endpoint=0x7f4b68003890, args={{grpc.absolute_max_metadata_size=16384, \
grpc.internal.endpoint_local_address={ours}, grpc.internal.endpoint_peer_address={theirs}, \
grpc.internal.security_connector=0x5606b8057f00}}, read_buffer.Length()=0, exit_early=0}}
"""
SAY = "import ctypes, os; from roambench.fleet.handshake_log import HandshakeLog; log = HandshakeLog(); "
SAY += "libc = ctypes.CDLL(None); stderr = ctypes.c_void_p.in_dll(libc, 'stderr'); say = lambda text: "
SAY += "libc.fputs(ctypes.c_char_p(text), ctypes.c_void_p(stderr.value))"


def message(what: str, ours: str = "ipv4:127.0.0.1:39265", theirs: str = "ipv4:10.0.0.13:38374") -> str:
    return MESSAGE.format(what=what, ours=ours, theirs=theirs)


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("CERTIFICATE_VERIFY_FAILED: certificate has expired", "its certificate has expired"),
        (
            "CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate",
            "its certificate is of another authority",
        ),
        (
            "CERTIFICATE_VERIFY_FAILED: unsupported certificate purpose",
            "its certificate is not valid (unsupported certificate purpose)",
        ),
        (
            "PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate verification context",
            "it showed no certificate",
        ),
        ("TLSV1_ALERT_UNKNOWN_CA: whatever", "it does not trust the controller's certificate"),
        ("EXCESSIVE_MESSAGE_SIZE: Invalid certificate verification context", "excessive message size"),
    ],
)
def test_a_failed_handshake_is_read_with_address_and_reason(what: str, reason: str) -> None:
    assert _failure(message(what)) == FailedHandshake("10.0.0.13", 38374, 39265, reason)


def test_addresses_are_read_as_people_write_them() -> None:
    failure = _failure(message("X", "ipv6:%5B::%5D:39265", "ipv6:%5B::ffff:10.0.0.13%5D:4242"))
    assert failure == FailedHandshake("10.0.0.13", 4242, 39265, "x")
    failure = _failure(message("X", "ipv6:%5B::1%5D:39265", "ipv6:%5Bfe80::1%25eth0%5D:4242"))
    assert failure == FailedHandshake("fe80::1", 4242, 39265, "x")


def test_what_is_no_failure_or_names_nobody_is_none() -> None:
    assert _failure(message("X").replace("UNKNOWN: Ssl", "OK Ssl")) is None
    assert _failure(message("X", theirs="unix:/tmp/x")) is None
    assert _failure("I1121 21:37:15.570430   20423 trace.cc:91] gRPC Tracers: handshaker\n") is None


@pytest.mark.parametrize(
    "first", ["runner.benches.bench_fleet", "runner.benches.local_bench", "provision.certificates"]
)
def test_a_controller_imports_grpc_with_its_log_and_hands_no_trace_on(first: str) -> None:
    """Whoever imports gRPC before the fleet does would take the reasons away."""
    told = python(
        f"import os, roambench.{first}; from roambench.fleet.traced_grpc import LOG; "
        "print(LOG is not None, 'GRPC_TRACE' in os.environ)"
    )
    assert told.stdout.split() == ["True", "False"]
    assert told.stderr == ""


def test_whoever_wants_grpcs_own_log_has_it() -> None:
    look = "from roambench.fleet.traced_grpc import LOG; print(LOG)"
    assert python(look, GRPC_VERBOSITY="ERROR").stdout == "None\n"
    assert python(look, GRPC_TRACE="http").stdout == "None\n"


def test_a_log_that_nobody_reads_stays_small_and_keeps_nobody_waiting() -> None:
    told = python(
        f"{SAY}\n"
        "for _ in range(2000): say(b'I' * 9999 + b'\\n')\n"  # 20 MB
        "print(os.fstat(log._file).st_size, os.lseek(log._file, 0, os.SEEK_CUR) <= 4 * 2**20)\n"
        "log.failures(); say(b'E1121 21:37:15.570430   20423 x.cc:1] after it\\n'); log.failures()"
    )
    assert told.stdout.split() == [str(4 * 2**20), "True"]
    assert told.stderr == "E1121 21:37:15.570430   20423 x.cc:1] after it\n"


def test_an_error_of_grpcs_goes_to_standard_error_and_its_chatter_nowhere() -> None:
    told = python(
        f"{SAY}\n"
        "say(b'of another library\\n')\n"
        "say(b'I1121 21:37:15.570430   20423 x.cc:1] chatter\\n')\n"
        "say(b'E1121 21:37:15.570431   20423 x.cc:2] bad\\nand why\\n')\n"
    )
    assert told.stderr == "of another library\nE1121 21:37:15.570431   20423 x.cc:2] bad\nand why\n"
