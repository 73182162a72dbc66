"""The garbage collector of a server's process."""

import gc


def settle_heap() -> None:
    """Exclude all current objects from collection: a server keeps what it has once it has started, and scanning it
    again blocked the loop for some 100 ms each time."""
    gc.freeze()
