"""What a user wrote in TOML, and its mistakes in words: file, key, what was expected, what was found."""
