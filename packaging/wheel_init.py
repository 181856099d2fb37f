"""Benches for mobile federated learning that account for every joule."""


def __getattr__(name: str) -> str:
    """`__version__`, looked up when somebody asks: agents start without reading it."""
    if name == "__version__":
        from roambench.contract import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
