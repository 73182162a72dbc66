"""Logs of released formats, kept to be read for ever."""
