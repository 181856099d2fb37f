"""Edge and cloud weights, and the weighted mean. Pure."""
