"""The file of the official memory server: entities with observations, and relations, a line each.

An entity becomes a fact, and each of its observations a message of its session, so that both are
found; a relation becomes a fact.
"""

import json
from collections.abc import Iterator
from typing import Any

from convmem import limits
from convmem.transfer.incoming import Findings, Incoming
from convmem.transfer.sources.drafts import Draft, Maker, shortened
from convmem.transfer.sources.files import Part, damaged, text_lines
from convmem.transfer.sources.source import ForeignSource
from convmem.transfer.sources.text import clean

_DECODER = json.JSONDecoder(strict=False)


class MemoryServer(ForeignSource):
    """The knowledge graph of the official memory server."""

    name = "memory server file"
    slug = "memory-server"

    def _read(self, part: Part, maker: Maker) -> Iterator[Incoming]:
        for place, value in objects(part, self.findings):
            self.findings.read += 1
            kind = value.get("type") if isinstance(value, dict) else None
            if kind == "entity" and isinstance(value.get("name"), str):
                yield from self._entity(value, place, maker)
            elif kind == "relation" and all(
                isinstance(value.get(name), str) for name in ("from", "to", "relationType")
            ):
                yield from self._relation(value, place, maker)
            else:
                self.findings.skip("neither entity nor relation")

    def _entity(self, entity: dict[str, Any], place: str, maker: Maker) -> Iterator[Incoming]:
        name = entity["name"]
        observed = entity.get("observations")
        observed = observed if isinstance(observed, list) else []
        texts = [each for each in observed if isinstance(each, str)]
        if len(texts) < len(observed):
            self.findings.skip("observations that are not text", len(observed) - len(texts))
        for each in texts:
            yield from maker.messages(
                Draft(
                    key=("observation", name, each),
                    session=maker.session_id(name),
                    time_ms=None,
                    role="assistant",
                    content=each,
                    place=place,
                    kind="semantic",
                )
            )
        kind = entity.get("entityType")
        told = [f"({kind})"] if isinstance(kind, str) and kind else []
        yield from self._fact(f"entity/{name}", "\n".join(told + texts) or name, place, maker)

    def _relation(self, relation: dict[str, Any], place: str, maker: Maker) -> Iterator[Incoming]:
        told = [relation[name] for name in ("from", "relationType", "to")]
        yield from self._fact("relation/" + "/".join(told), " ".join(told), place, maker)

    def _fact(self, key: str, value: str, place: str, maker: Maker) -> Iterator[Incoming]:
        key = clean(key, self.findings).replace("\0", "\ufffd")
        key = shortened(key, limits.FACT_KEY_BYTES_MAX)
        value = clean(value, self.findings)
        if len(value.encode()) > limits.FACT_VALUE_BYTES_MAX:
            self.findings.skip(
                f"facts of more than {limits.FACT_VALUE_BYTES_MAX:,} bytes (kept as messages)"
            )
            return
        yield from maker.fact(key, value, place)


def objects(part: Part, findings: Findings) -> Iterator[tuple[str, Any]]:
    """The objects of a file: one a line, or several that were glued together."""
    for place, line in text_lines(part, findings):
        start = 0
        line = line.strip()
        while start < len(line):
            try:
                value, start = _DECODER.raw_decode(line, start)
            except (ValueError, RecursionError):
                damaged(findings, place)
                break
            yield place, value
            while start < len(line) and line[start] in " \t,":
                start += 1
