"""All wheels another machine needs, whatever machine this is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from roambench.contract.errors import ConfigError
from roambench.provision.platforms import Platform
from roambench.provision.wheels.wheel_closure import Wheel, closure

_PI = Platform("aarch64", "3.11").markers
_INDEX = {
    "torch": ("2.9.1", ["sympy>=1.13", 'nvidia-cublas; platform_machine == "x86_64"', 'opt; extra == "opt"']),
    "sympy": ("1.14.0", ["mpmath<1.4,>=1.1"]),
    "mpmath": ("1.3.0", []),
    "nvidia-cublas": ("12", []),
    "opt": ("1", []),
    "app": ("1", ["torch[opt]"]),
}


def _fetch(asked: Sequence[str]) -> Iterable[Wheel]:
    for text in asked:
        name = text.split(">")[0].split("<")[0].split("=")[0]
        version, requires = _INDEX[name]
        yield Wheel(name, version, f"{name}.whl", "", 1, 1, tuple(requires))


def test_needs_are_followed_by_the_markers_of_the_machine_they_are_for() -> None:
    assert [wheel.name for wheel in closure(["torch>=2.5"], _PI, _fetch)] == ["mpmath", "sympy", "torch"]
    server = Platform("x86_64", "3.11").markers
    assert "nvidia-cublas" in [wheel.name for wheel in closure(["torch"], server, _fetch)]


def test_an_extra_is_followed_where_it_is_asked_for() -> None:
    assert "opt" in [wheel.name for wheel in closure(["app"], _PI, _fetch)]


def test_versions_that_do_not_fit_are_all_told() -> None:
    with pytest.raises(ConfigError) as raised:
        closure(["torch<2.9", "sympy>2"], _PI, _fetch)
    assert raised.value.problems == (
        "roambench needs torch<2.9, got 2.9.1",
        "roambench needs sympy>2, got 1.14.0",
    )


def test_a_pi_can_use_wheels_up_to_the_c_library_of_debian_12() -> None:
    tags = Platform("aarch64", "3.13").tags
    assert tags[0] == "manylinux_2_36_aarch64"
    assert {"manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(tags)
