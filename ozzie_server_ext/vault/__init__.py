"""Secrets: stored encrypted in one file, shown only to their owners (ADR 15)."""
