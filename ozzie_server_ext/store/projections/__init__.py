"""Read models: tables, and the pure folds that fill them from facts. No clock and no chance in a fold."""
