"""The plays: systems with access points, and systems without a server; the same on every fleet."""
