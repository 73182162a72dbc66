"""Durable tasks: creating, driving, cancelling, recovering."""
