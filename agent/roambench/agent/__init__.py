"""The process on a board: it reads the meter, holds a session with the controller and carries out its orders.

`life` puts it together; `orders` carries out, over `session` and `peers`, and records with `readings`.
"""
