"""One turn: prompt, model, tool calls, answer."""
