"""The subjects of provisioning, one a file: facts and wishes in, steps out. All of it is pure."""
