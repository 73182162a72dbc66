"""Finds the sum that a sentence asks for, written the way people write sums."""

import re

_SIGNS = str.maketrans(
    {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "²": "^2", "³": "^3", "\N{NO-BREAK SPACE}": " "}
)
# Begun at a number's first digit only and bounded, so that a long run of digits is not searched from each of them.
_NUMBER = r"(?<![\d.])(\d{1,30}(?:\.\d{1,30})?)"
_WORDS = (
    (re.compile(r"\s+(?:multiplied by|times)\s+", re.I), " * "),
    (re.compile(r"\s+(?:divided by|over)\s+", re.I), " / "),
    (re.compile(r"\s+plus\s+", re.I), " + "),
    (re.compile(r"\s+minus\s+", re.I), " - "),
    (re.compile(r"\s+to the power of\s+", re.I), " ^ "),
)
_PERCENT_OF = re.compile(rf"{_NUMBER}\s*(?:%|percent|per cent)\s+of\s+{_NUMBER}", re.I)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WANTED = re.compile(r"\b(calculat\w*|comput\w*|what is|what's|how much is|evaluate|work out)\b|=", re.I)
# Not inside a word, a path or a date: a sum is on its own.
_SUM = re.compile(r"(?<![\w@/.\-])-?[\d(.][\d\s+\-*/^().]*")
_OPERATION = re.compile(r"[\d)]\s*[+\-*/^]\s*[\d(.\-]")
_MAX_CHARS = 200


def find_expression(question: str) -> str | None:
    """The sum in `question` as an expression of numbers, brackets and `+ - * / **`; None where it asks for none.

    >>> find_expression("What is 17.5 % of 2,480?")
    '17.5/100*2480'
    """
    text = _THOUSANDS.sub("", question.translate(_SIGNS))
    for pattern, sign in _WORDS:
        text = pattern.sub(sign, text)
    percent = _PERCENT_OF.search(text)
    if percent:
        return f"{percent[1]}/100*{percent[2]}"
    sums = [found for match in _SUM.finditer(text) if (found := _trimmed(match, text))]
    if not sums:
        return None
    longest = max(sums, key=len)
    if not _WANTED.search(text) and len(longest) < len(text.strip(" .?!")):
        return None
    return longest.replace("^", "**")


def _trimmed(match: re.Match[str], text: str) -> str | None:
    follower = text[match.end() : match.end() + 1]
    found = match[0].rstrip(" .+-*/^\n\t")
    whole_word = not (follower.isalnum() and match[0] == found) and follower not in ("/", "@", "_")
    balanced = found.count("(") == found.count(")")
    if whole_word and balanced and len(found) <= _MAX_CHARS and _OPERATION.search(found):
        return re.sub(r"\s+", "", found)
    return None
