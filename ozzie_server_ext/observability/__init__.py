"""Clock, ids and logs."""
