"""What a contract promises, in words: for a card, where a label stands beside it, and for a list of facts."""

RISKS = {"low": "Low", "medium": "Medium", "high": "High"}
EFFECTS = {"none": "None", "reversible": "Can be undone", "irreversible": "Cannot be undone"}
"""UX §2.4."""
NOT_KNOWN = "Not known"
"""What is said of a fact that is missing: never nothing (UX §2.4)."""


def undo_words(undo: str, side_effect: str) -> str:
    """How what was done can be taken back, as the contract says it."""
    return undo or ("None" if side_effect == "irreversible" else NOT_KNOWN)


EFFECTS_AT_LENGTH = {
    "none": "none: it changes nothing",
    "reversible": "can be undone",
    "irreversible": "can't be undone",
}
REPEATS = {
    "supported": "safe to repeat",
    "required": "needs a key against doubles",
    "not_supported": "not safe to repeat",
}

NEEDS = {
    "model": "",
    "relay": "",
    "cli": "in a terminal or in the page; a kernel's yes is not enough",
    "browser": "in the page",
    "step_up": "in the page, once you have proved who you are",
}
"""Where a yes has to be given, by the weakest way that it may come by."""
