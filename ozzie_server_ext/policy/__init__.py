"""The policy: rules about which calls run, ask first or never run, and the pure engine that applies them."""
