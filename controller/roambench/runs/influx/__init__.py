"""The records of a run in an InfluxDB: forwarded to it, asked of it, read back."""
