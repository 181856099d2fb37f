"""A signal that comes while asyncio closes its loop is nobody's any more: no complaint of it is printed."""

import subprocess
import sys

WORKS = """
import asyncio, os, signal
from roambench.contract.last_signals import run_to_its_end

closes = asyncio.SelectorEventLoop._close_self_pipe

def closes_and_is_told(loop):
    closes(loop)  # the handlers are still there
    os.kill(os.getpid(), signal.SIGTERM)

asyncio.SelectorEventLoop._close_self_pipe = closes_and_is_told

async def work():
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await told.wait()
    return "told"

print(run_to_its_end(work()))
"""


def test_a_second_sigterm_while_the_loop_is_closed_is_not_complained_of() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKS], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "told\n", "")
