"""`--plan`: the hours, joules, bytes and disk that a run would take."""
