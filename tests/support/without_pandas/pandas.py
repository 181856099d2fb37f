"""Stands before pandas in the processes that tests start: commands run there as their users have them.

pyarrow imports pandas wherever it finds it, 0.1 s of CPU time of every command. One test needs it, in its own
process.
"""

raise ModuleNotFoundError("roambench needs no pandas: no process that a test starts has it", name="pandas")
