"""`roambench trace`: its commands."""
