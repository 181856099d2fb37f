"""Rules for every test: no asyncio task outlives the test that started it, and Ctrl-C means something."""

import asyncio
import functools
import gc
import inspect
import os
import signal
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

LOCAL = Path(__file__).parent / "local"
#: First on the PYTHONPATH of every process that a test starts.
WITHOUT_PANDAS = Path(__file__).parent / "support" / "without_pandas"
#: Fixtures that several folders of tests share.
pytest_plugins = ["influx_servers", "no_skips"]


def pytest_configure() -> None:
    """A script's background command ignores SIGINT, one under nohup SIGHUP, and so would every process that a
    test starts."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(WITHOUT_PANDAS) not in path:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(WITHOUT_PANDAS), *filter(None, path)])
    # One commit, one verdict; laptops go on searching. How long an example takes is the machine's.
    unhurried = [HealthCheck.too_slow]
    settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=unhurried)
    settings.register_profile("laptop", deadline=None, suppress_health_check=unhurried)
    settings.load_profile("ci" if os.environ.get("CI") else "laptop")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is read to find the tests stays: a million objects that no collection of garbage looks through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes by their argument's name: packed ones hold the hour, and no two workers would agree on a test."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _data_folder().is_dir():  # what a clone does not have is no test of it
        dropped = [item for item in items if "data_folder" in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=dropped)
    items.sort(key=lambda item: LOCAL not in item.path.parents)  # the longest first, else as shuffled
    for item in items:
        # `make test` looks for them there only: reading all files again takes as long as a test.
        if item.get_closest_marker("alone") and LOCAL not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid}: what has to run alone belongs into {LOCAL}")
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _leaving_no_task(item.obj)


def _leaving_no_task(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def guarded(*args: Any, **kwargs: Any) -> None:
        await test(*args, **kwargs)
        # What was cancelled may finish; grpc ends a call's task some turns of the loop after the call.
        turns = 200
        while (left := _others()) and turns:
            await asyncio.wait(left, timeout=0.01)
            turns -= 1
        assert not left, f"tasks outlive the test: {left}"

    return guarded


def _others() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.fixture(scope="module")
def workers_of_one_server() -> Iterator[None]:
    """Workers of virtual devices in this process are forked of one that has torch already, as in a sweep."""
    from forked_commands import server  # loads all of the command line
    from roambench.fleet import fork_server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fork_server, "inherited", server())
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch computes on one thread, as in a worker, and afterwards on as many as before."""
    import torch  # here, as few tests need it and it takes long to load

    from roambench.learning.training import single_threaded

    threads = torch.get_num_threads()
    single_threaded()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real data sets and traces (mnist/, traces/): $ROAMBENCH_DATA, or shared/data beside the checkout.

    Without the folder, tests that need it are deselected.
    """
    return _data_folder()


def _data_folder() -> Path:
    root = Path(__file__).resolve().parents[1]
    return Path(os.environ.get("ROAMBENCH_DATA", root.parent / "shared" / "data"))
