"""What a run says to a tracker, once, and figures for papers. Exporters: `commands.added.EXPORTERS`."""
