"""Inert HTML, inert Markdown and the forms of a turn: no front end ever gets raw model text as markup."""
