"""Anybody's tools: what a plugin says of itself, and what it asks for."""
