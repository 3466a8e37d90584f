"""The message tools: how what a host asks reaches the memory."""

from typing import Any

from convmem.memory import Memory
from convmem.operations import DeleteMessage, JsonObject
from convmem.protocol import Call, Tool
from convmem.tools.arguments import (
    DeleteMessageArguments,
    DeleteMessageResult,
    ReadMessagesArguments,
    SearchMessagesArguments,
    UpdateMessageArguments,
    UpdateMessageResult,
    WriteMessageArguments,
    WriteMessageResult,
)
from convmem.tools.replies import client_id, parse_id, refusing
from convmem.tools.requests import read_query, search_query, update_command, write_command


def message_tools(memory: Memory, configured_client: str | None) -> list[Tool[Any]]:
    """The tools over messages. Writes are the configured client's, else the host's by name."""
    writing = _writing_tools(memory, configured_client)
    return [*writing, _reading_tool(memory), _searching_tool(memory)]


def _writing_tools(memory: Memory, configured_client: str | None) -> list[Tool[Any]]:

    async def write(arguments: WriteMessageArguments, call: Call) -> JsonObject:
        return await memory.execute(write_command(arguments, client_id(configured_client, call)))

    async def update(arguments: UpdateMessageArguments, call: Call) -> JsonObject:
        return await memory.execute(update_command(arguments))

    async def delete(arguments: DeleteMessageArguments, call: Call) -> JsonObject:
        return await memory.execute(
            DeleteMessage(
                message_id=parse_id(arguments.message_id, "message_id"),
                session_id=arguments.session_id,
                expected_revision=arguments.expected_revision,
            )
        )

    return [
        Tool(
            name="write_message",
            title="Remember a message",
            description=(
                "Store one message of a conversation durably, word for word. Use it for what "
                "was said or decided and should be found again in later conversations. When it "
                "returns, the message is safe on disk. Returns the message_id."
            ),
            arguments=WriteMessageArguments,
            result=WriteMessageResult,
            handler=refusing(write),
            read_only=False,
            destructive=False,
            idempotent=False,
        ),
        Tool(
            name="update_message",
            title="Change a remembered message",
            description=(
                "Change the text or the metadata of a stored message. Give the revision you "
                "read; if someone changed the message since, nothing is done and CONFLICT tells "
                "the current one. What is not named stays as it is."
            ),
            arguments=UpdateMessageArguments,
            result=UpdateMessageResult,
            handler=refusing(update),
            read_only=False,
            destructive=True,
            idempotent=False,
        ),
        Tool(
            name="delete_message",
            title="Forget a message",
            description=(
                "Remove one stored message: it is read and found no more from now on, and its "
                "bytes leave the disk with the next rebuild_index. It cannot be taken back."
            ),
            arguments=DeleteMessageArguments,
            result=DeleteMessageResult,
            handler=refusing(delete),
            read_only=False,
            destructive=True,
            idempotent=False,
        ),
    ]


def _reading_tool(memory: Memory) -> Tool[ReadMessagesArguments]:
    async def read(arguments: ReadMessagesArguments, call: Call) -> JsonObject:
        return await memory.query(read_query(arguments))

    return Tool(
        name="read_messages",
        title="Read remembered messages",
        description=(
            "Read what was stored. view 'sessions' lists the conversations with a summary "
            "each; 'history' pages through one of them; 'content' reads a message that is "
            "too long for a page (content_truncated) in windows; 'context' shows what was "
            "said around a message and what it is linked to; 'export' gives everything. "
            "A next_cursor in the reply means there is more."
        ),
        arguments=ReadMessagesArguments,
        handler=refusing(read),
        read_only=True,
        destructive=False,
        idempotent=True,
    )


def _searching_tool(memory: Memory) -> Tool[SearchMessagesArguments]:
    async def search(arguments: SearchMessagesArguments, call: Call) -> JsonObject:
        return await memory.query(search_query(arguments))

    return Tool(
        name="search_messages",
        title="Search the memory",
        description=(
            "Find what was said in any conversation. Use it before answering about the past. "
            "Ask in full or give the telling words: messages that hold the query as a whole "
            "come first, then the best partial matches, in any order of words. Each result "
            "has an excerpt around the match and what it scored by; read_messages (view "
            "'context' or 'content') shows more. Filters narrow it; total counts all matches."
        ),
        arguments=SearchMessagesArguments,
        handler=refusing(search),
        read_only=True,
        destructive=False,
        idempotent=True,
    )
