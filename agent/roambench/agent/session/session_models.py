"""Small models within the session: no connection, no call and no handshake beside it.

A clock probe may have to wait for 64 KiB of a model: none is sent to a device that has an order.
"""

from __future__ import annotations

import asyncio

from roambench.agent.board_load import REAL_RADIO, RadioLoad
from roambench.agent.session.control_link import ControlLink
from roambench.agent.session.data_link import BrokeOff, ModelTransfer, TimeIsUp
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.model_digest import names
from roambench.contract.phases import Moved
from roambench.contract.session import ModelReceipt, ModelReply, ModelRequest, ModelUpload

_Reply = asyncio.Future[tuple[ModelReply | ModelReceipt, int]]  # and when it came, device time


class SessionModels:
    """Downloads and uploads as `DataLink` does, without a pace. A model comes when it is asked for and not
    with its order: its bytes move in their phase."""

    def __init__(self, control: ControlLink, clock: DeviceClock) -> None:
        self._control, self._clock = control, clock
        self._replies: dict[tuple[str, str], _Reply] = {}

    def take(self, reply: ModelReply | ModelReceipt) -> None:
        """Take a reply of the controller; one that is not waited for any more is ignored."""
        waiting = self._replies.get((reply.order_id, reply.digest))
        if waiting is not None and not waiting.done():
            waiting.set_result((reply, self._clock.now_ns()))

    async def download(
        self,
        order_id: str,
        ap: int,
        digest: str,
        limit_s: float,
        radio: RadioLoad = REAL_RADIO,
        *,
        coded: bool = False,
    ) -> tuple[bytes, ModelTransfer]:
        """The blob of version `digest`; `radio` begins when it is here. Raises as `DataLink` does."""
        what, started_ns = f"download of {order_id}", self._clock.now_ns()
        reply, ended_ns = await self._reply(ModelRequest(order_id, digest), limit_s, what)
        if not isinstance(reply, ModelReply) or reply.refusal:
            raise LinkError(f"{what} broke off: {reply.refusal}")
        radio.begin(ended_ns, len(reply.blob))
        if not names(reply.sent_digest if coded else digest, reply.blob):
            raise ModelError(f"{what}: the digest does not match")
        moved = Moved(len(reply.blob), ended_ns, ended_ns)
        return reply.blob, ModelTransfer(moved, (ended_ns - started_ns) * 1e-9)

    async def upload(
        self,
        order_id: str,
        train_order_id: str,
        ap: int,
        blob: bytes,
        digest: str,
        mbit_s: float,
        limit_s: float,
        radio: RadioLoad = REAL_RADIO,
    ) -> ModelTransfer:
        """Send `blob`, which `radio` does at once; it has moved when its receipt comes, at the latest. Raises
        as `DataLink` does."""
        started_ns = self._clock.now_ns()
        radio.begin(started_ns, len(blob))
        word = ModelUpload(order_id, train_order_id, ap, digest, blob)
        receipt, ended_ns = await self._reply(word, limit_s, f"upload of {order_id}")
        if receipt.refusal:
            raise ModelError(f"upload of {order_id} refused: {receipt.refusal}")
        return ModelTransfer(Moved(len(blob), started_ns, ended_ns), (ended_ns - started_ns) * 1e-9)

    async def _reply(
        self, word: ModelRequest | ModelUpload, limit_s: float, what: str
    ) -> tuple[ModelReply | ModelReceipt, int]:
        key = word.order_id, word.digest
        reply: _Reply = asyncio.get_running_loop().create_future()
        self._replies[key] = reply
        try:
            async with AwakeTimeout(limit_s):
                return await self._control.answered(word, reply)
        except TimeoutError:
            raise TimeIsUp(f"{what} was not done in time") from None
        except LinkError as error:
            raise BrokeOff(f"{what} broke off: {error}") from None
        finally:
            if self._replies.get(key) is reply:
                del self._replies[key]
