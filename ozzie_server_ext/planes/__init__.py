"""Supervised child processes and their NDJSON channel."""
