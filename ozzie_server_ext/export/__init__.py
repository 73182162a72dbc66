"""Sessions as files for people and programs, and the proof that such a file shows what was recorded."""
