"""Bytes to readings, one file per meter: pure, incremental, and never raising for what a wire may carry."""
