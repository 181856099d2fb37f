"""Sources of a meter's bytes: serial port, TCP, UDP, WebSocket; what they mean is not known here."""
