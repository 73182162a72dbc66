"""Replies that try to become more than text, and the check that they did not; shared by unit and browser tests."""
