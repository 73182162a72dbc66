"""Running commands apart from the gateway: the port, and the sandbox of the operating system behind it."""
