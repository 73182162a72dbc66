"""Notebook files of the project: what a tool may write into one, and changing a single cell."""
