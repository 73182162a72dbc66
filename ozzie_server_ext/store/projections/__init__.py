"""Read models: tables, and the pure folds that fill them from facts, without clock or randomness."""
