"""Event streams: made by chance from a seed, or recorded, and what they must come to."""
