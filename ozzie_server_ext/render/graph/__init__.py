"""Workflows as pictures, tables and text."""
