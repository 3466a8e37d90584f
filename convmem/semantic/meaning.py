"""What a query means: the vector to compare with, or why there is none."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.operations import JsonObject
from convmem.semantic.meanings import Meanings


@dataclass(frozen=True, slots=True)
class Meaning:
    """``told`` is what a reply says of how was searched. Without a vector it is by words.

    ``by_words``: with a vector, words count as well.
    """

    vector: NDArray[np.float32] | None
    told: JsonObject
    meanings: Meanings | None = None
    by_words: bool = True

    def of_messages(self, rows: int) -> NDArray[np.float32] | None:
        """How near each message is; None for a search by words."""
        if self.vector is None or self.meanings is None:
            return None
        return self.meanings.message_cosines(self.vector, rows)

    def of_facts(self, keys: list[str]) -> NDArray[np.float32] | None:
        """The same of facts by key."""
        if self.vector is None or self.meanings is None:
            return None
        return self.meanings.fact_cosines(self.vector, keys)


BY_WORDS = Meaning(None, {"mode": "lexical"})
