"""Documents for machines: JSON with stable keys."""
