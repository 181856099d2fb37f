"""Certificates: make, check, name, serial."""
