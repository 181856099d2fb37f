"""An agent's life: its launch, its parts put together, its runs, and who asks it over the control socket."""
