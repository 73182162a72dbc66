"""Runs of skills: begun, driven step by step, and recorded."""
