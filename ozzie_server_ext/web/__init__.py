"""Reaching the web: what may be reached, what is asked, and what comes back."""
