"""Two scores of each message as one: by its words, and by its meaning.

    score = half of how far the lexical score stands above the mean of all messages, in standard
            deviations, and half of the same of the cosine; raised so that the least is 0

A message without a cosine (not embedded yet) stands at the mean. Ranks instead of scores, or
cosines as they are, were worse with every model that was measured.
"""

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

SEMANTIC_SHARE = 0.5
NEAR_DEVIATIONS = 1.5
"""A cosine that stands so far above the mean answers a query by itself."""

# Of fewer messages than this the deviation says little: a cosine is then held against these.
_FEW = 50
_FEW_MEAN, _FEW_DEVIATION = 0.05, 0.1


def blended(own: Scores, cosines: Scores) -> tuple[Scores, NDArray[np.bool_]]:
    """The scores of rows, and which rows are near the query in meaning.

    ``own`` are their lexical scores, ``cosines`` NaN where there is none; both of one shape.
    """
    known = ~np.isnan(cosines)
    near = np.zeros(own.shape, np.float32)
    near[known] = _standing(cosines[known], few=True)
    mixed = (1 - SEMANTIC_SHARE) * _standing(own, few=False) + SEMANTIC_SHARE * near
    scores: Scores = (mixed - mixed.min(initial=0)).astype(np.float32)
    return scores, near > NEAR_DEVIATIONS


def _standing(values: Scores, *, few: bool) -> Scores:
    """How many standard deviations each value is above the mean."""
    if few and len(values) < _FEW:
        mean, deviation = _FEW_MEAN, _FEW_DEVIATION
    else:
        mean, deviation = float(values.mean()), float(values.std())
    return (values - np.float32(mean)) / np.float32(deviation or 1.0)
