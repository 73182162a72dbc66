#!/usr/bin/env python3
"""A plugin for Ozzie, started anew for each call: the tool's name is the argument, its arguments are JSON on standard
input, and the result is JSON on standard output. Standard error is for the log."""

import json
import re
import sys
from collections import Counter


def count_words(text: str, most: int) -> dict:
    if not 0 <= most <= 100:
        raise ValueError("most is between 0 and 100.")
    words = [word.lower() for word in re.findall(r"\w+", text)]
    return {"words": len(words), "most": [[word, times] for word, times in Counter(words).most_common(most)]}


TOOLS = {"count_words": count_words}

try:
    result = TOOLS[sys.argv[1]](**json.load(sys.stdin))
except ValueError as error:
    result = {"error": str(error)}  # a model reads this: say what to do instead
json.dump(result, sys.stdout)
