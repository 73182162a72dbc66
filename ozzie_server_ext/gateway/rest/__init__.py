"""The REST interface: a function and a shape for each operation; `gateway.routes` is the table of them."""
