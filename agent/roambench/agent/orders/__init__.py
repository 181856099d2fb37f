"""Orders of the controller: their queue, the trainer, the models that they leave on the device's disk."""
