"""What a host has to have, one subject a file: facts and wishes in, steps out. All of it is pure."""
