"""Anybody's tools: what a plugin says of itself, what it asks for, and what it may."""
