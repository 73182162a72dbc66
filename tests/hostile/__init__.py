"""Replies that try to become more than text, programs that race with a change of a file, and ends at the worst moment;
shared by tests."""
