"""The event log, its projections and the feed."""
