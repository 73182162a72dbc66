"""What a contract promises, in words: for a card, where a label stands beside it, and for a list of facts."""

RISKS = {"low": "Low", "medium": "Medium", "high": "High"}
EFFECTS = {"none": "None", "reversible": "Can be undone", "irreversible": "Cannot be undone"}
"""UX §2.4."""
NOT_KNOWN = "Not known"
"""What is said of a fact that is missing: never nothing (UX §2.4)."""
EFFECTS_AT_LENGTH = {
    "none": "none: it only reads",
    "reversible": "can be undone",
    "irreversible": "can't be undone",
}
REPEATS = {
    "supported": "safe to repeat",
    "required": "needs a key against doubles",
    "not_supported": "not safe to repeat",
}
