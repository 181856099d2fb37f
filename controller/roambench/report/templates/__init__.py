"""Templates of pages and pictures, and what fills them in."""
