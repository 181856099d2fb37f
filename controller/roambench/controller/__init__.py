"""Configuration, composition and the command line."""
