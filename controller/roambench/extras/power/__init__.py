"""Switches of boards other than their meter, and emulated ones: rows of `provision.power.table.SWITCHES`."""
