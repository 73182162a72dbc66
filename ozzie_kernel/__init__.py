"""The Ozzie kernel: a thin client that turns a cell's text into an agent turn at the gateway."""
