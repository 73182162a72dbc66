"""Running commands apart from the gateway: the port, and the sandbox that implements it."""
