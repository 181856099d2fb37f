"""All that controller and agent share: readings, orders, models as bytes, phases, errors. No torch, no
serial."""

__version__: str


def __getattr__(name: str) -> str:
    """`__version__` of the installed distribution, looked up when asked for, which agents never do."""
    if name == "__version__":
        from importlib.metadata import version

        return version("roambench")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
