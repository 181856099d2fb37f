"""`roambench fleet`: one file per group of its commands."""
