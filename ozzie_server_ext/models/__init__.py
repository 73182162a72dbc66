"""Model drivers and the choice between them."""
