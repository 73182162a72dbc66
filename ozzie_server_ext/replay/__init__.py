"""Deterministic replay: a recorded session is run again from its record, without a model, a tool or a network."""
