"""Tools, their registry, and the broker: the one path by which a tool runs."""
