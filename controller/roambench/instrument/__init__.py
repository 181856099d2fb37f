"""Work on the instrument itself: calibrating meters and links, and what measuring costs."""
