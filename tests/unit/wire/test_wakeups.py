"""An event loop is woken once for all that gRPC has for it."""

import asyncio
import socket
import subprocess
import sys

import pytest

from roambench.wire.wakeups import few_wakeups

_CALL = """
import asyncio, grpc, grpc.aio
from roambench.wire import wakeups

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        async def answer(request, context):
            return request
        return grpc.unary_unary_rpc_method_handler(answer)

async def main():
    woken, once = [], wakeups._once
    wakeups._once = lambda *arguments: (woken.append(arguments), once(*arguments))
    with wakeups.few_wakeups():
        server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/a/b")
        answers = await asyncio.gather(*(call(str(number).encode()) for number in range(200)))
    await server.stop(None)
    print(answers == [str(number).encode() for number in range(200)], len(woken) > 0)

asyncio.run(main())
"""


@pytest.mark.asyncio
async def test_bytes_of_one_wakeup_are_read_together_but_one() -> None:
    loop, woken = asyncio.get_running_loop(), 0
    reading, writing = socket.socketpair()

    def take() -> None:
        nonlocal woken
        woken += 1
        reading.recv(1)

    with few_wakeups():
        loop.add_reader(reading, take)
    try:
        for times in (1, 2):
            writing.send(bytes(100))
            async with asyncio.timeout(30):
                while woken < times:
                    await asyncio.sleep(0)
            with pytest.raises(BlockingIOError):
                reading.recv(1, socket.MSG_DONTWAIT)
        assert woken == 2
    finally:
        loop.remove_reader(reading)
        reading.close()
        writing.close()


def test_a_server_of_grpc_is_woken_that_way_and_answers() -> None:
    done = subprocess.run([sys.executable, "-c", _CALL], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
