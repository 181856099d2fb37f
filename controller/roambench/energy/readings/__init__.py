"""Readings and phases of a device in time: samples, what each looked at, timelines, throttling; pure."""
