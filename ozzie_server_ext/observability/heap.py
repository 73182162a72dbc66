"""The garbage collector of a server's process."""

import gc


def settle_heap() -> None:
    """Have the collector pass over all that there is now, for good: what a server has once it has started, it keeps. To
    look through it again and again held up the loop for some 100 ms at a time."""
    gc.freeze()
