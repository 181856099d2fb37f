"""Many runs of one experiment: a grid over its keys, several seeds, one table at the end."""
