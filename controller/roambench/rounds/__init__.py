"""The one round loop: ports, planning, settling."""
