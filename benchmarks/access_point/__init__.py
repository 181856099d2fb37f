"""Boards behind one access point: real SSH servers in network namespaces, on one air that all share."""
