"""TOML as users write it, and its mistakes in words: file, key, what was expected, what was found."""
