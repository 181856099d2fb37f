"""The run before, as a faint line behind the one that goes on."""

from __future__ import annotations

from roambench.contract.errors import RoambenchError
from roambench.live.folders import FoundRun
from roambench.live.messages import Message, RunMessages
from roambench.live.saved_page import SavedPage
from roambench.live.view import RunView


def ghost_of(found: FoundRun | None) -> Message:
    """The curves of a run, with its name and system. Empty where there is none or it cannot be read."""
    if found is None or found.info is None:
        return {}
    saved = SavedPage.opened(found.path, found.info)
    try:
        curves = saved.curves() if saved is not None else _curves(found)
    except RoambenchError:
        return {}
    return {"name": found.name, "system": found.info.system, **curves}


def _curves(found: FoundRun) -> Message:
    view = RunView(found.path)
    try:
        while view.look():
            pass
        return RunMessages(view).curves()
    finally:
        view.close()
