"""Notebooks of the project: what a tool may write into one, and how one cell of a file is changed and nothing else."""
