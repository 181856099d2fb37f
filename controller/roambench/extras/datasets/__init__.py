"""Data sets beside those of the papers: rows of `learning.datasets.catalogue.DATASETS`."""
