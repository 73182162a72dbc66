"""What tasks made: kept, listed, opened."""
