"""The fact tools: short values under keys that all of a user's assistants share."""

from typing import Any

from convmem import limits
from convmem.memory import Memory
from convmem.operations import (
    DeleteFact,
    JsonObject,
    ListFacts,
    ReadFact,
    ReadFactHistory,
    SearchFacts,
    SetFact,
)
from convmem.protocol import Call, Tool
from convmem.tools.fact_arguments import (
    DeleteFactArguments,
    DeleteFactResult,
    FactHistoryArguments,
    GetFactArguments,
    ListFactsArguments,
    SearchFactsArguments,
    SetFactArguments,
    SetFactResult,
)
from convmem.tools.replies import Handler, client_id, refusing


def fact_tools(memory: Memory, configured_client: str | None) -> list[Tool[Any]]:
    """The tools over facts. What is done is the client's that is named, else as for messages."""
    return [
        *_changing_tools(memory, configured_client),
        *_reading_tools(memory, configured_client),
        *_listing_tools(memory),
    ]


def _changing_tools(memory: Memory, configured_client: str | None) -> list[Tool[Any]]:
    async def set_fact(arguments: SetFactArguments, call: Call) -> JsonObject:
        return await memory.execute(
            SetFact(
                key=arguments.key,
                value=arguments.value,
                client_id=arguments.client_id or client_id(configured_client, call),
                expected_value=arguments.expected_value,
                expected_revision=arguments.expected_revision,
                require_absent=bool(arguments.require_absent),
            )
        )

    async def delete_fact(arguments: DeleteFactArguments, call: Call) -> JsonObject:
        return await memory.execute(
            DeleteFact(
                key=arguments.key,
                client_id=arguments.client_id or client_id(configured_client, call),
                expected_value=arguments.expected_value,
                expected_revision=arguments.expected_revision,
                purge=bool(arguments.purge),
            )
        )

    return [
        Tool(
            name="memory_set",
            title="Set a fact",
            description=(
                "Keep a short fact under a key that all assistants of the user share: a "
                "preference, a decision, a name, a counter. The last value counts; every "
                "change stays in its history with who made it. To change what you read "
                "without losing another's change, give expected_revision."
            ),
            arguments=SetFactArguments,
            result=SetFactResult,
            handler=refusing(set_fact),
            read_only=False,
            destructive=True,
            idempotent=False,
        ),
        Tool(
            name="memory_delete",
            title="Delete a fact",
            description=(
                "Take a key's value away. Its history stays, unless purge is given: then "
                "rebuild_index removes the last trace of it from disk."
            ),
            arguments=DeleteFactArguments,
            result=DeleteFactResult,
            handler=refusing(delete_fact),
            read_only=False,
            destructive=True,
            idempotent=False,
        ),
    ]


def _reading_tools(memory: Memory, configured_client: str | None) -> list[Tool[Any]]:
    async def get(arguments: GetFactArguments, call: Call) -> JsonObject:
        return await memory.query(
            ReadFact(
                key=arguments.key,
                include_events=bool(arguments.include_events),
                max_bytes=limits.REPLY_BYTES_DEFAULT,
                client_id=client_id(configured_client, call),
            )
        )

    async def search(arguments: SearchFactsArguments, call: Call) -> JsonObject:
        return await memory.query(
            SearchFacts(
                query=arguments.query,
                top_k=arguments.top_k or limits.FACTS_FOUND_DEFAULT,
                max_bytes=limits.REPLY_BYTES_DEFAULT,
                prefix=arguments.prefix or "",
                client_id=client_id(configured_client, call),
            )
        )

    return [
        _reading(
            "memory_get",
            "Read a fact",
            "The present value of a key, with its revision, when it was set and by whom.",
            GetFactArguments,
            refusing(get),
        ),
        _reading(
            "memory_search",
            "Search facts",
            "Find facts by what they say, when you do not know the key: in values and keys, by "
            "words and parts of words, in any language. Look here before you ask the user for "
            "what they may have told before.",
            SearchFactsArguments,
            refusing(search),
        ),
    ]


def _listing_tools(memory: Memory) -> list[Tool[Any]]:
    async def listed(arguments: ListFactsArguments, call: Call) -> JsonObject:
        return await memory.query(
            ListFacts(
                prefix=arguments.prefix or "",
                limit=arguments.limit or limits.PAGE_ITEMS_DEFAULT,
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
                cursor=arguments.cursor,
            )
        )

    async def history(arguments: FactHistoryArguments, call: Call) -> JsonObject:
        return await memory.query(
            ReadFactHistory(
                key=arguments.key,
                include_reads=bool(arguments.include_reads),
                limit=arguments.limit or limits.PAGE_ITEMS_DEFAULT,
                max_bytes=arguments.max_bytes or limits.REPLY_BYTES_DEFAULT,
                cursor=arguments.cursor,
            )
        )

    return [
        _reading(
            "memory_list",
            "List facts",
            "The facts there are, by key, page by page; all of them, or those whose key begins "
            "with a prefix.",
            ListFactsArguments,
            refusing(listed),
        ),
        _reading(
            "memory_history",
            "History of a fact",
            "What happened to a key, the newest first: who set or deleted it when, to what, and "
            "what was refused and why.",
            FactHistoryArguments,
            refusing(history),
        ),
    ]


def _reading(
    name: str, title: str, description: str, arguments: type[Any], handler: Handler[Any]
) -> Tool[Any]:
    return Tool(
        name=name,
        title=title,
        description=description,
        arguments=arguments,
        handler=handler,
        read_only=True,
        destructive=False,
        idempotent=True,
    )
