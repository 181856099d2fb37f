"""`roambench meter`: one file per command."""
