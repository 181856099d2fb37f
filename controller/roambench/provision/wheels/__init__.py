"""Packages that boards are sent: a wheelhouse for each platform, the agent's own build, and how it gets
there."""
