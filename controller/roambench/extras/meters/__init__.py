"""Meters that are read by libraries of their makers; each library is imported when its meter is opened."""
