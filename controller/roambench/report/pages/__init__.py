"""Self-contained HTML pages that load nothing."""
