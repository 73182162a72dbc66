"""Skills: their files, checks and runs. `tasks` and `agent` run them."""
