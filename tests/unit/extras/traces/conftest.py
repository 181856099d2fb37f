"""What the tests of readers have in common."""

from reader_fixtures import account, read, rows

__all__ = ["account", "read", "rows"]
