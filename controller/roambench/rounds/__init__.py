"""The round loops, of systems with access points and of decentralised ones: ports, planning, settling."""
