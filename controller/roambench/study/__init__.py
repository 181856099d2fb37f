"""Many runs of one question: sweeps, comparisons in pairs, campaigns on a bench."""
