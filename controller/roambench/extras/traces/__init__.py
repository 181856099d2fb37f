"""Trace formats beside those of the papers: readers of the table `mobility.readers.READERS`."""
