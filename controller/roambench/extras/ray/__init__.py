"""Training on several machines by Ray: a row of `controller.places.simulated.BACKENDS`."""
