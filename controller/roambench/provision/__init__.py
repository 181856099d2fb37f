"""From a bench description to provisioned hosts: pure code says what is missing, SSH does it."""
