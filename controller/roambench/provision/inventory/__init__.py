"""The description of a bench: its file, its tables and rules, and which spare plays which board."""
