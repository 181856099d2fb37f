"""Mobility traces, readers, generators, association. Pure, but for `files`."""
