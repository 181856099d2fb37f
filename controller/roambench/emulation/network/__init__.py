"""The emulated meter's network side: telnet, HTTP, WebSocket."""
