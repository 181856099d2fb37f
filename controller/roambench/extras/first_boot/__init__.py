"""Files for the boot partition of a flashed SD card: the board's first boot makes it a host of the bench."""
