"""The process on a board: the link to the controller, the trainer process, the meter reader."""
