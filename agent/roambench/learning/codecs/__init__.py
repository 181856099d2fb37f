"""Codecs: a model, or what training changed of it, in fewer bytes (docs/codecs.md). NumPy alone."""
