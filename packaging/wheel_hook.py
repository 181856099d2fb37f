"""Makes the package in a wheel a regular one, with a version; an editable install stays a namespace."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatch asks it before a build: `force-include` in pyproject.toml would reach editable installs, too, and
    hide the three folders of the source tree behind one file.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add `roambench/__init__.py` to a wheel (`version` is "standard"), not to an editable install."""
        if version == "standard":
            build_data["force_include"]["packaging/wheel_init.py"] = "roambench/__init__.py"
