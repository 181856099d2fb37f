"""Runs in the formats of other tools: what a run says to a tracker, once, and a writer for each tracker."""
