"""Where the items of a row stand along it: as near as may be to where they want to, and never on each other."""

from collections.abc import Sequence


def spread(
    wanted: Sequence[float],
    weights: Sequence[float],
    apart: Sequence[float],
    *,
    low: float = float("-inf"),
    high: float = float("inf"),
) -> list[float]:
    """The places nearest to `wanted` (least squares) at which item n is `apart[n]` or more from the one before it, the
    first not below `low`, the last not above `high`. `apart[0]` is not looked at.

    Without the distances it is a row that must not fall; wherever it would, neighbours move to their common mean.
    """
    offsets = [0.0] * len(wanted)
    for at in range(1, len(wanted)):
        offsets[at] = offsets[at - 1] + apart[at]
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many items
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            earlier, heavy, more = blocks.pop()
            mean = (mean * total + earlier * heavy) / (total + heavy)
            total, count = total + heavy, count + more
        blocks.append((mean, total, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    last = offsets[-1] if offsets else 0.0
    return [max(min(place, high - last), low) + offset for place, offset in zip(flat, offsets, strict=True)]
