"""Training on several machines by Ray: a row of `runner.places.simulated.BACKENDS`."""
