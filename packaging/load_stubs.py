"""load_stubs.py MAJOR: stubs under that major release of protobuf, there and back (`make check-protos`)."""

import sys

import google.protobuf

from roambench.wire.v1 import control_pb2, data_pb2, peer_pb2


def main(major: str) -> None:
    """AssertionError or ImportError where this protobuf is another one or does not take the stubs."""
    assert google.protobuf.__version__.partition(".")[0] == major, google.protobuf.__version__
    for module in (control_pb2, data_pb2, peer_pb2):
        for name in module.DESCRIPTOR.message_types_by_name:
            message = getattr(module, name)
            assert message.FromString(message().SerializeToString()) == message()
    hello = control_pb2.Hello(device="pi-01", protocol_version=1)
    assert control_pb2.Hello.FromString(hello.SerializeToString()).device == "pi-01"


if __name__ == "__main__":
    main(sys.argv[1])
