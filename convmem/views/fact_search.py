"""The answer to a search for facts: the best, with what each was found by."""

from convmem.fact import Fact
from convmem.fact_index import FactIndex
from convmem.limits import EXCERPT_BYTES
from convmem.operations import JsonObject, SearchFacts
from convmem.pages import Detail, Page
from convmem.search import Field, Found, Hit
from convmem.semantic import Meaning
from convmem.state import State
from convmem.views.facts import fact_item
from convmem.views.rows import matched_by

_DECIMALS = 4
_NAMES = {Field.CONTENT: "value", Field.SUMMARY: "key"}


def search_facts(
    state: State, index: FactIndex, query: SearchFacts, meaning: Meaning
) -> JsonObject:
    """The best facts, from the index of the state, which is up to date, and the meaning."""
    found, keys = index.find(query.query, query.prefix, query.top_k, meaning)
    page: Page[JsonObject] = Page(query.max_bytes)
    reply: JsonObject = {"facts": page.items, "total": found.total, **meaning.told}
    for place, hit in enumerate(found.hits):
        fact = state.fact(keys[hit.row])
        if fact is not None and not _add(page, fact, found, hit):
            reply["left_out"] = len(found.hits) - place
            break
    return reply


def _add(page: Page[JsonObject], fact: Fact, found: Found, hit: Hit) -> bool:
    """Take a fact in, or leave it out. On its own page it may be shortened, around its match."""
    cut, offset = found.excerpt(fact.value, EXCERPT_BYTES)
    scores = {
        _NAMES[field]: round(score, _DECIMALS)
        for field, score in hit.fields.items()
        if field in _NAMES
    }
    matched: JsonObject = {
        "score": round(hit.score, _DECIMALS),
        "scores": scores,
        "holds_query": hit.holds_query,
        "matched_by": "lexical",
        **matched_by(hit),
    }
    shown: JsonObject = {"value": cut, "value_offset": offset}

    def item(detail: Detail) -> JsonObject:
        told = fact_item(fact, detail) | matched
        return told if detail is Detail.WHOLE else told | shown

    return page.add_detailed(item)
