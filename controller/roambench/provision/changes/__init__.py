"""What changes a provisioned bench: upgrades, rotations, replacements, reboots, removal."""
