"""The commands of `roambench`, one file each. They import what they need when they run, so help is quick."""
