"""What runs on a Pi: the link to the controller, the trainer process, the meter reader."""
