"""Boards that no bench description has yet: seen on the network, asked who they are, drafted."""
