"""Ray for the time of one run: quiet, without telemetry or dashboard, and gone afterwards."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from roambench.contract.errors import FleetError
from roambench.contract.extra_packages import install_command

#: Ray refuses to start with less than 75 MiB; above the models there has to be room for its own messages.
_LEAST_STORE_BYTES: Final = 128 << 20
#: Of Ray's messages when its own server took longer to start than it waits for it, which cannot be set.
_TOO_SLOW: Final = ("Timed out waiting for file", "timed out during startup")
#: Known to this process and what it starts. A local Ray listens on every interface of the machine, and who
#: may talk to it may run code in it.
_TOKEN: Final = secrets.token_hex(32)
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leaves CUDA_VISIBLE_DEVICES alone, and does not warn
    "RAY_DEDUP_LOGS": "0",
}


class RaySession:
    """`ray` is the module; import and start happen in `open`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._folder = ""
        self._open = False
        self.ray: Any = None

    @property
    def local(self) -> bool:
        """True if Ray was started here, for us."""
        return not self._address

    def open(self, cpus: int, store_bytes: int) -> None:
        """Join the cluster at the address, or start a local Ray of `cpus` whose object store holds
        `store_bytes`. FleetError where Ray is not installed, not there, or busy in this process."""
        for attempts_left in (3, 2, 1, 0):
            with _unclosed_files():
                try:
                    self._begin(cpus, store_bytes)
                    break
                except FleetError as error:
                    slow = self.local and any(text in str(error) for text in _TOO_SLOW)
                    if not slow or not attempts_left:
                        raise  # else once more: what it read from the disk is in memory now

    def _begin(self, cpus: int, store_bytes: int) -> None:
        self.ray = _imported()
        if self.ray.is_initialized():
            raise FleetError("this process already uses Ray; a run starts or joins its own")
        quiet: dict[str, Any] = {}
        if self.local:
            # Ray's sockets lie in there, and a socket's path has at most 107 characters.
            self._folder = tempfile.mkdtemp(
                prefix=f"rb-ray-{os.getpid()}-", dir="/tmp" if Path("/tmp").is_dir() else None
            )
            quiet = {
                "include_dashboard": False,
                "num_cpus": cpus,
                "num_gpus": 0,
                "object_store_memory": max(store_bytes, _LEAST_STORE_BYTES),
                "_temp_dir": self._folder,
            }
        self._open = True
        try:
            with _environment(self.local), _unclosed_files(), _own_signal_handler():
                _read_environment_again()
                self.ray.init(
                    address=self._address or "local",
                    log_to_driver=False,
                    configure_logging=False,
                    logging_level="CRITICAL",
                    **quiet,
                )
        except Exception as error:  # as Ray has them, down to the plain one
            self.close()
            what = (
                f"cannot join the Ray cluster at {self._address!r}" if self._address else "cannot start Ray"
            )
            raise FleetError(f"{what}: {str(error).strip().splitlines()[0]}") from None

    def close(self) -> None:
        """End what `open` began, and its files; does nothing the second time."""
        if self._open:
            self._open = False
            with _unclosed_files(), _own_signal_handler():
                self.ray.shutdown()
                self._end_forgotten()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _end_forgotten(self) -> None:
        """Kill what Ray began here and does not know any more, because it gave up in the middle."""
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if self._folder and any(self._folder in word for word in child.cmdline()):
                    child.kill()
                    child.wait(5.0)


def _imported() -> Any:
    try:
        with _environment(local=False), _unclosed_files():
            import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise FleetError(
            f'simulated.backend = "ray" needs Ray, which is not installed: {install_command("ray")}'
        ) from None
    return ray


def _read_environment_again() -> None:
    """Ray looks for the token's variables once, when it is imported; this is what its own tests do."""
    from ray._raylet import AuthenticationTokenLoader, Config

    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


@contextmanager
def _environment(local: bool) -> Iterator[None]:
    """Set the environment that Ray's processes inherit; a cluster's own token is the user's business
    (RAY_AUTH_TOKEN)."""
    wanted = dict(_QUIET)
    if local and "RAY_AUTH_MODE" not in os.environ:
        wanted |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN}
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        # Ray adds variables, which are nothing to our other child processes.
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _unclosed_files() -> Iterator[None]:
    """Ray 2.55 leaves log files and child processes to the garbage collector; collect them quietly here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@contextmanager
def _own_signal_handler() -> Iterator[None]:
    """Ray puts its own handler of SIGTERM into the process that starts it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
