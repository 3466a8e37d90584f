"""The file of the reference memory server: a graph of entities and relations, as facts.

entity    key ``entity/NAME``, value: its type, and its observations, one on each line
relation  key ``relation/FROM/TYPE/TO``, value: the sentence that it is
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from convmem.fact import Fact
from convmem.limits import FACT_KEY_BYTES_MAX, FACT_VALUE_BYTES_MAX
from convmem.records import SetFact
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources.pieces import Piece, json_lines
from convmem.transfer.sources.turns import derived_id, items, text_or

SOURCE = "memory-server"


def is_line(line: dict[str, Any]) -> bool:
    """Whether an object is a line of such a file."""
    return (line.get("type") == "entity" and "name" in line) or (
        line.get("type") == "relation" and "from" in line
    )


class MemoryServer:
    """Such a file as a source."""

    name = "memory server file"

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.findings = Findings()
        self.size_bytes = sum(piece.size_bytes for piece in pieces)

    def read(self) -> Iterator[Incoming]:
        """A fact for each entity and each relation."""
        self.findings = Findings()
        seen: set[str] = set()
        for piece in self._pieces:
            for number, line in json_lines(piece, self.findings):
                if not is_line(line):
                    self.findings.skip("lines are neither entity nor relation")
                    continue
                self.findings.read += 1
                key, value = _entity(line) if line["type"] == "entity" else _relation(line)
                key = _fitting(key)
                if key in seen:
                    self.findings.skip("entities or relations are there already, so named")
                    continue
                seen.add(key)
                place = f"{piece.name}, line {number}"
                for part, (name, text) in enumerate(self._parts(key, value)):
                    event_id = derived_id(SOURCE, name, str(part), text)
                    fact = Fact(
                        key=name,
                        value=text,
                        revision=1,
                        set_at=piece.changed_ms,
                        client_id=SOURCE,
                    )
                    yield Incoming(SetFact(event_id, fact), place)

    def _parts(self, key: str, value: str) -> Iterator[tuple[str, str]]:
        """The fact, or several where the value is longer than one may be."""
        value = value.encode("utf-8", "replace").decode()
        data = value.encode()
        number = 1
        while len(data) > FACT_VALUE_BYTES_MAX:
            self.findings.note("is longer than a fact may be: it was divided")
            part = data[:FACT_VALUE_BYTES_MAX].decode(errors="ignore")
            data = data[len(part.encode()) :]
            yield (key if number == 1 else _fitting(f"{key}/{number}")), part
            number += 1
        yield (key if number == 1 else _fitting(f"{key}/{number}")), data.decode()


def _entity(line: dict[str, Any]) -> tuple[str, str]:
    kind = text_or(line.get("entityType"))
    observed = [text for text in items(line.get("observations")) if isinstance(text, str)]
    return f"entity/{line['name']}", "\n".join([*filter(None, [kind]), *observed])


def _relation(line: dict[str, Any]) -> tuple[str, str]:
    words = [str(line.get(name, "")) for name in ("from", "relationType", "to")]
    return "relation/" + "/".join(words), " ".join(words)


def _fitting(key: str) -> str:
    """The key, or its start and a digest where it is longer than one may be."""
    key = key.encode("utf-8", "replace").decode().replace("\0", "0")
    data = key.encode()
    if len(data) <= FACT_KEY_BYTES_MAX:
        return key
    digest = hashlib.sha256(data).hexdigest()[:16]
    return data[: FACT_KEY_BYTES_MAX - 17].decode(errors="ignore") + "-" + digest
