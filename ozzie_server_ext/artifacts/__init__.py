"""Artifacts: storing, listing and opening what tasks made."""
