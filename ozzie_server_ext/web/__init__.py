"""Web access: which addresses may be reached, requests, and results."""
