"""gRPC as the fleet imports it: for the first time, so that its core writes down why a handshake failed.

from roambench.fleet.traced_grpc import grpc
"""

from roambench.fleet.handshake_log import traced

with traced() as LOG:
    import grpc as grpc
    import grpc.aio

#: What the core writes; None where gRPC had been imported before.
__all__ = ["LOG", "grpc"]
