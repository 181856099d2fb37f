"""Tables of a report as values, which the console and the page draw."""
