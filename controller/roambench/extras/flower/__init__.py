"""Flower apps, unchanged, on our fleets: the app's two halves run in separate processes."""
