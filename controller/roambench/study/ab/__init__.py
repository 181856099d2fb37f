"""Two experiments against each other, run in turns: how much better one is, with an interval."""
