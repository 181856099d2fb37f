"""SSH as OpenSSH and Fabric do it: who logs in, by which key, and what a command said."""
