"""Every placement of a unit in a small picture, for tests that try all of them."""

import itertools


def placements(unit, size, shape):
    """Lists of the pixels (row, column) that one unit may hold."""
    height, width = shape[:2]
    every = list(itertools.product(range(height), range(width)))
    if unit == "item":
        return [every]
    if unit == "pixels":
        return [list(chosen) for chosen in itertools.combinations(every, min(size, len(every)))]
    tall, wide = min(size, height), min(size, width)
    corners = itertools.product(range(height - tall + 1), range(width - wide + 1))
    return [[(y + i, x + j) for i in range(tall) for j in range(wide)] for y, x in corners]
