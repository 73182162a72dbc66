"""Facts, ids, states and errors. Pure: no input or output, no clock, no randomness; imports nothing of ours."""
