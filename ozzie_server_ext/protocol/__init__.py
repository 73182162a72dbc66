"""Wire formats: the only place that knows field names on a wire, and the strict reading of JSON."""
