"""Changes of a provisioned bench: upgrades, rotations, replacements, reboots, removal."""
