"""Energy per phase: the fit of what each phase draws, its checks, and an estimate without a model; pure."""
