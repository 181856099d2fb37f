"""Rules for every test: no asyncio task outlives the test that started it."""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

#: Fixtures that several folders of tests share.
pytest_plugins = ["influx_servers"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _leaving_no_task(item.obj)


def _leaving_no_task(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def guarded(*args: Any, **kwargs: Any) -> None:
        await test(*args, **kwargs)
        left = _others()
        if left:  # what was cancelled may finish; grpc ends a call's task some ticks after the call
            await asyncio.wait(left, timeout=0.5)
            left = _others()
        assert not left, f"tasks outlive the test: {left}"

    return guarded


def _others() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real data sets and traces: $ROAMBENCH_DATA, or a folder shared/data beside the checkout."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("ROAMBENCH_DATA", root.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data here: set ROAMBENCH_DATA to a folder with mnist/ and traces/")
    return folder
