"""Runs on a host, under its own Python and nothing else: tells which of other hosts' addresses answer.

The argument is JSON: addresses by name. So is the answer: why it does not answer, by name, "" where it does.
"""

from __future__ import annotations

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

#: Peer ports are among the highest. Nothing listens here: a host that can be reached refuses the connection.
_PORT = 49151
_PATIENCE_S = 5.0


def lost(address: str) -> str:
    """Return why no host answers at the address, "" where one does."""
    try:
        socket.create_connection((address, _PORT), _PATIENCE_S).close()
    except ConnectionRefusedError:
        return ""
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return error.strerror or str(error)
    return ""


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        answers = {name: pool.submit(lost, address) for name, address in asked.items()}
        print(json.dumps({name: answer.result() for name, answer in answers.items()}))
