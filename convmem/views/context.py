"""The view around a message: its neighbours in the session, and what it is linked to.

Nearest first, until the budget is used: neighbours on both sides, then linked messages, those
one link away before those two away. A message is shown once, however many ways lead to it.
What did not fit is counted, what is linked to and gone is named.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest

from convmem import ids
from convmem.limits import RELATED_MAX
from convmem.message import Message
from convmem.operations import JsonObject, ReadContext
from convmem.pages import Detail, Page, add_message, message_item
from convmem.state import State
from convmem.views.rows import found_row, neighbour_rows

SOURCE = "source"
"""How a link from a summary to a message it covers is called, beside the types of relations."""


@dataclass(frozen=True, slots=True)
class Link:
    """A step from one message to another, along a link or against it."""

    origin: bytes
    type: str
    outgoing: bool
    other: bytes


def context(state: State, query: ReadContext) -> JsonObject:
    """The message, what was said around it, and what it is linked to."""
    row = found_row(state, query.message_id)
    message = state.message(row)
    page: Page[JsonObject] = Page(query.max_bytes)
    add_message(page, message)
    reply: JsonObject = {"view": "context", "message": page.items[0]}
    shown = {message.message_id}
    reply |= _neighbours(state, row, query, page, shown)
    return reply | _related(state, message, query.relation_depth, page, shown)


def _neighbours(
    state: State, row: int, query: ReadContext, page: Page[JsonObject], shown: set[bytes]
) -> JsonObject:
    """What stands before and after in the session, in the order of writing."""
    before, after = neighbour_rows(state, row, query.before, query.after)
    sides = {"before": before[::-1], "after": after}
    items: dict[str, list[JsonObject]] = {"before": [], "after": []}
    full: set[str] = set()
    for pair in zip_longest(*sides.values()):
        for side, neighbour in zip(sides, pair, strict=True):
            if neighbour is None or side in full:
                continue
            message = state.message(neighbour)
            if _add(page, message):
                items[side].append(page.items[-1])
                shown.add(message.message_id)
            else:
                full.add(side)
    reply: JsonObject = {"before": items["before"][::-1], "after": items["after"]}
    for side, rows_of_side in sides.items():
        if len(items[side]) < len(rows_of_side):
            reply[f"{side}_left_out"] = len(rows_of_side) - len(items[side])
    return reply


def _related(
    state: State, message: Message, depth_max: int, page: Page[JsonObject], shown: set[bytes]
) -> JsonObject:
    """What is linked, nearest first; what was shown already is named without its message."""
    related: list[JsonObject] = []
    missing: list[str] = []
    left_out = 0
    found = list(islice(_links(state, message, depth_max), RELATED_MAX + 1))
    for depth, link in found[:RELATED_MAX]:
        row = state.messages.live_row(link.other)
        name = ids.to_text(link.other)
        if row is None:
            if page.reserve(name):
                missing.append(name)
            else:
                left_out += 1
            continue
        item: JsonObject = {
            "message_id": name,
            "depth": depth,
            "direction": "outgoing" if link.outgoing else "incoming",
            "type": link.type,
            "from_message_id": ids.to_text(link.origin),
        }
        if _add_related(page, item, None if link.other in shown else state.message(row)):
            related.append(page.items[-1])
        else:
            left_out += 1
    reply: JsonObject = {"related": related}
    if missing:
        reply["missing_message_ids"] = missing
    if left_out:
        reply["related_left_out"] = left_out
    if len(found) > RELATED_MAX:
        reply["related_limit"] = RELATED_MAX
    return reply


def _add_related(page: Page[JsonObject], item: JsonObject, message: Message | None) -> bool:
    if message is None:
        return page.add(item)
    return any(page.add(item | {"message": message_item(message, detail)}) for detail in Detail)


def _links(state: State, start: Message, depth_max: int) -> Iterator[tuple[int, Link]]:
    """Every message that is reached, once, with its distance and the first link to it."""
    reached = {start.message_id}
    frontier = [start]
    for depth in range(1, depth_max + 1):
        found: list[Message] = []
        for message in frontier:
            for link in _links_of(state, message):
                if link.other in reached:
                    continue
                reached.add(link.other)
                yield depth, link
                row = state.messages.live_row(link.other)
                if row is not None and depth < depth_max:
                    found.append(state.message(row))
        frontier = found


def _links_of(state: State, message: Message) -> Iterator[Link]:
    own_id = message.message_id
    for relation in message.metadata.relations:
        yield Link(own_id, relation.type, True, relation.message_id)
    for source in message.metadata.source_message_ids:
        yield Link(own_id, SOURCE, True, source)
    for row in state.links.sources(own_id):
        other = state.message(row)
        for relation in other.metadata.relations:
            if relation.message_id == own_id:
                yield Link(own_id, relation.type, False, other.message_id)
        if own_id in other.metadata.source_message_ids:
            yield Link(own_id, SOURCE, False, other.message_id)


def _add(page: Page[JsonObject], message: Message) -> bool:
    """Take a message in, with as much detail as there is room for."""
    return any(page.add(message_item(message, detail)) for detail in Detail)
