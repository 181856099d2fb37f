"""Where a system is played: one file per kind of fleet, and the table of them."""
