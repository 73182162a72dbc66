"""Which calls run, which ask first, which never run: rules, and the pure engine that applies them."""
