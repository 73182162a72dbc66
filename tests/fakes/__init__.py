"""Stand-ins for services outside, faithful on the wire."""
