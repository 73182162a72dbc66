"""Skills: what they may say, whether they hold together, where they lie. Running them is `tasks`' and `agent`'s."""
