"""The command line: verbs that talk HTTP to a gateway, and verbs that work offline."""
