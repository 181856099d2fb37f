"""The places where a system runs: one file per kind of fleet, and the table of them."""
