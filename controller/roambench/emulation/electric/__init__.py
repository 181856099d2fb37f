"""The electrical side of an emulated board and meter: draw, signal, sensor."""
