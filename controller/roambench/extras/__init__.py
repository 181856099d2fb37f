"""Parts that few need: reached by entry points alone (pyproject.toml), and imported by no module outside."""
