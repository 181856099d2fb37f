"""The durable local queue of readings and events, and its drains."""
