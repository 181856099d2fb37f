"""The typed experiment: TOML in, one validated frozen `Experiment` out, every mistake reported at once."""
