"""Power meters: frames (bytes to readings, pure), drivers, the emulator, the catalogue."""
