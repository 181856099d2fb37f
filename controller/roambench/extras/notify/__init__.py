"""Messages of an unattended campaign to a person: `--notify` of `sweep` and `ab`."""
