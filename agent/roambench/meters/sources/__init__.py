"""Where a meter's bytes come from: serial port, TCP, UDP, WebSocket; what they mean is not known here."""
