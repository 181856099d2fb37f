"""Exporters: a writer for each tracker or archive (`roambench export`)."""
