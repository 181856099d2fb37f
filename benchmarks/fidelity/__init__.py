"""Boards and meters drawn from their physics alone, and how the estimator does there.

The worlds (`catalogue`, `generator`, `meters`) share no code with estimator or emulator and were written from
data sheets without a look at either.
"""
