"""What the wire must do, each sentence with where it comes from.

A test says what it proves: ``@proves("CALL-01")``, or a row of its table whose name begins with
the id. ``test_requirements`` holds the two to each other: what nothing proves must say why.

    python -m tests.protocol.requirements docs

writes ``docs/requirements.md``. Sources: a page of the specification of the versions named, a
section of JSON-RPC 2.0, or what known hosts and official clients do, where that asks for more.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ALL = "all"
HANDSHAKE = "to 2025-11-25"
BATCHES = "2025-03-26"
STRUCTURED = "from 2025-06-18"
MODERN = "2026-07-28"

HOSTS = "known hosts"
CLIENTS = "official clients"
OURS = "our own"
RPC = "JSON-RPC 2.0"
STDIO = "basic/transports, stdio"
LIFECYCLE = "basic/lifecycle"
VERSIONING = "basic/versioning"
TOOLS = "server/tools"
RESOURCES = "server/resources"


@dataclass(frozen=True, slots=True)
class Requirement:
    """``gap`` says why no test proves it; None where one must."""

    id: str
    versions: str
    source: str
    text: str
    gap: str | None = None


_ROWS: tuple[tuple[str, ...], ...] = (
    # Lines
    ("LINE-01", ALL, STDIO, "A line is one message; the byte 0x0A alone ends it."),
    ("LINE-02", ALL, HOSTS, "A carriage return before the end of a line is no part of it."),
    ("LINE-03", ALL, HOSTS, "A blank line is ignored."),
    ("LINE-04", ALL, HOSTS, "A byte order mark before a line is skipped."),
    ("LINE-05", ALL, f"{RPC}, 5.1", "What is not JSON gets -32700; the next line is served."),
    ("LINE-06", ALL, HOSTS, "Lines that are not JSON are answered only so often."),
    ("LINE-07", ALL, STDIO, "A last line without its end is served before the server ends."),
    ("LINE-08", ALL, OURS, "A line of 16 MiB is read; a longer one is refused and skipped."),
    ("LINE-09", ALL, OURS, "What is nested too deeply is refused before it is parsed."),
    ("LINE-10", ALL, "basic, UTF-8", "Bytes that are not UTF-8 spoil the string they are in only."),
    ("LINE-11", ALL, STDIO, "How a stream is cut into pieces changes nothing."),
    ("LINE-12", ALL, RPC, "Whatever arrives, a request with a readable id has one answer."),
    ("LINE-13", ALL, OURS, "Control characters in a string are read as they are."),
    ("LINE-14", ALL, OURS, "A process lives on, whatever it hears."),
    # Messages
    ("MSG-01", ALL, f"{RPC}, 4", "What is no message gets -32600, with its id if it has one."),
    ("MSG-02", ALL, "basic, requests", "An id that is no string or integer gets -32600 and null."),
    ("MSG-03", ALL, f"{RPC}, 5", "An answer has the id of its request, in value and in type."),
    ("MSG-04", ALL, f"{RPC}, 4", "The ids 1 and '1' are two."),
    ("MSG-05", ALL, "basic, requests", "The id of a request in flight is refused, then free."),
    ("MSG-06", ALL, HOSTS, "params: null is no params."),
    ("MSG-07", ALL, "basic, requests", "params that are no object get -32602."),
    ("MSG-08", ALL, HOSTS, "A key that a message should not have is ignored."),
    ("MSG-09", ALL, f"{RPC}, 5.1", "A method unknown or not offered gets -32601."),
    ("MSG-10", ALL, f"{RPC}, 4.1", "Notifications, stray answers, odd cancellations: no answer."),
    ("MSG-11", ALL, CLIENTS, "Half a surrogate pair comes back as U+FFFD."),
    ("BATCH-01", BATCHES, "basic, batching", "An array of requests is answered by one array."),
    ("BATCH-02", ALL, "basic, batching", "In any other version an array gets one -32600."),
    ("BATCH-03", BATCHES, LIFECYCLE, "initialize in a batch is refused."),
    ("BATCH-04", BATCHES, f"{RPC}, 6", "An array that is empty or too long gets one -32600."),
    ("BATCH-05", BATCHES, f"{RPC}, 6", "Where a batch asks for nothing, nothing is answered."),
    # Lifecycle
    ("LIFE-01", HANDSHAKE, LIFECYCLE, "A version that is spoken is agreed."),
    ("LIFE-02", HANDSHAKE, LIFECYCLE, "For any other one the latest with a handshake is offered."),
    ("LIFE-03", HANDSHAKE, LIFECYCLE, "An initialize without a version that is text gets -32602."),
    ("LIFE-04", HANDSHAKE, HOSTS, "clientInfo may be missing or odd."),
    ("LIFE-05", HANDSHAKE, HOSTS, "Of several handshakes the last one holds."),
    ("LIFE-06", HANDSHAKE, LIFECYCLE, "ping and lists are answered before the handshake too."),
    ("LIFE-07", HANDSHAKE, HOSTS, "A call may come before notifications/initialized."),
    ("LIFE-08", HANDSHAKE, LIFECYCLE, "The answer names version, server and what is offered."),
    ("LIFE-09", ALL, "changelogs", "A field is sent only in versions that have it."),
    ("LIFE-10", ALL, HOSTS, "The first answer waits for no tool, no heavy import, no store."),
    ("ERA-01", ALL, VERSIONING, "The era is decided for each request, and never locked."),
    ("ERA-02", MODERN, VERSIONING, "server/discover names versions and what is offered."),
    ("ERA-03", MODERN, VERSIONING, "An envelope without a key it must have gets -32602."),
    ("ERA-04", MODERN, VERSIONING, "Another version gets -32022 with those supported."),
    ("ERA-05", MODERN, "schema", "Results have a resultType; lists say how long they hold."),
    ("ERA-06", ALL, "changelogs", "A method of the other era gets -32601."),
    ("ERA-07", MODERN, VERSIONING, "A capability that a client lacks is asked for with -32021."),
    ("ERA-08", MODERN, "basic", "No requests go to a client."),
    ("ERA-09", MODERN, "basic/patterns, MRTR", "A result may say what input is required."),
    # Tools
    ("LIST-01", ALL, HOSTS, "A list comes whole, in its order, without a cursor."),
    ("LIST-02", ALL, "server/utilities/pagination", "A cursor that is not ours gets -32602."),
    ("LIST-03", ALL, HOSTS, "The lists of resources and prompts are answered though empty."),
    ("CALL-01", ALL, TOOLS, "An unknown tool gets -32602."),
    ("CALL-02", ALL, TOOLS, "Wrong arguments are a result with isError that names them all."),
    ("CALL-03", ALL, TOOLS, "A tool that fails is a result with isError, without its secrets."),
    ("CALL-04", ALL, HOSTS, "Absent arguments, or null, are none."),
    ("CALL-05", ALL, HOSTS, "Arguments as JSON text are read."),
    ("CALL-06", ALL, HOSTS, "An argument that is not declared is ignored."),
    ("CALL-07", STRUCTURED, HOSTS, "Text and structuredContent each hold the whole result."),
    ("CALL-08", ALL, HOSTS, "Numbers, booleans, arrays and objects as text are read; text stays."),
    ("CALL-09", ALL, HOSTS, "null, and '' or 'null' where no text can be meant, are absent."),
    ("CALL-10", ALL, RPC, "Numbers that are not finite or not exact are refused as arguments."),
    ("CALL-11", ALL, "basic, UTF-8", "Text that is not Unicode is refused with its place."),
    ("CALL-12", ALL, OURS, "A result that is no JSON or too long is told with isError."),
    ("CALL-13", ALL, HOSTS, "A call that its host has given up silently ends by itself.",
     "no call waits for anything but the store, whose waits are bounded (BUSY)"),
    ("CANCEL-01", ALL, "basic/utilities/cancellation", "Nothing follows; the id is free."),
    ("CANCEL-02", ALL, "basic/utilities/cancellation", "Only the very id is cancelled."),
    ("PROG-01", ALL, "basic/utilities/progress", "Only who gave a valid token is told."),
    ("PROG-02", ALL, "basic/utilities/progress", "Progress rises from one report to the next."),
    ("PROG-03", ALL, HOSTS, "None in the first second, at completion or after the answer."),
    # Resources, prompts, logging, questions
    ("RES-01", ALL, RESOURCES, "Resources and templates are listed apart, and read."),
    ("RES-02", ALL, RESOURCES, "An unknown one gets -32002, since 2026-07-28 -32602."),
    ("RES-03", ALL, RESOURCES, "Bytes are read as base64."),
    ("RES-04", HANDSHAKE, RESOURCES, "Who subscribed hears of changes, until unsubscribed."),
    ("RES-05", MODERN, "basic/patterns, subscriptions", "A listener is acknowledged first, then "
     "told under its id, and answered at the end."),
    ("RES-06", ALL, RESOURCES, "A change is told whichever process made it."),
    ("RES-07", ALL, RESOURCES, "list_changed is told when the list changes.",
     "the capability is not declared: the list of resources never changes"),
    ("RES-08", ALL, OURS, "Subscriptions are bounded in number and length."),
    ("PROMPT-01", ALL, "server/prompts", "Prompts are listed with their arguments, and rendered."),
    ("PROMPT-02", ALL, "server/prompts", "An unknown prompt or wrong argument gets -32602."),
    ("COMPLETE-01", ALL, "server/utilities/completion", "At most 100 values, and how many more."),
    ("LOG-01", HANDSHAKE, "server/utilities/logging", "Messages come from the level set on."),
    ("LOG-02", MODERN, "server/utilities/logging", "Only a request that asks for logs gets them."),
    ("LOG-03", HANDSHAKE, "server/utilities/logging", "An unknown level gets -32602."),
    ("ASK-01", HANDSHAKE, "client", "A client that is asked is heard."),
    ("ASK-02", HANDSHAKE, "basic/utilities/cancellation", "A question nobody needs is withdrawn."),
    # The process
    ("PROC-01", ALL, LIFECYCLE, "At the end of input calls get a second to finish; exit 0."),
    ("PROC-02", ALL, HOSTS, "A blocked output or a hanging close holds up no end."),
    ("PROC-03", ALL, LIFECYCLE, "SIGTERM, SIGINT and SIGHUP are such an end."),
    ("PROC-04", ALL, HOSTS, "An output that nobody reads any more is no error."),
    ("PROC-05", ALL, HOSTS, "A server whose host is gone ends."),
    ("PROC-06", ALL, HOSTS, "Input and output may be files, the null device, or missing."),
    ("PROC-07", ALL, HOSTS, "What a host does not read takes under 16 MiB, and comes later."),
    ("PROC-08", ALL, HOSTS, "A stderr that nobody reads holds up nothing."),
    ("PROC-09", ALL, STDIO, "Whatever is printed, nothing but messages reaches stdout."),
    ("PROC-10", ALL, HOSTS, "Nothing is written to stderr in good order."),
    ("PROC-11", ALL, HOSTS, "No environment and any working folder will do."),
    ("PROC-12", ALL, HOSTS, "Any number of servers of one memory run at once."),
    ("PROC-13", ALL, HOSTS, "The handshake is answered soon after the start of Python.",
     "measured by bench/start.py: a time is no verdict on a shared machine"),
    ("PROC-14", ALL, HOSTS, "Pipes of Windows carry the same bytes.",
     "streams are read and written as bytes, but nothing was tried on Windows"),
    # What lists hold
    ("HOST-01", ALL, HOSTS, "No schema has what any known host refuses."),
    ("HOST-02", ALL, HOSTS, "Names of tools and properties are short, of a-z, 0-9 and _."),
    ("HOST-03", ALL, HOSTS, "Descriptions, instructions and the list of tools are short."),
    ("HOST-04", ALL, HOSTS, "There are at most 15 tools."),
    ("HOST-05", ALL, HOSTS, "A result is at most 32 KiB unless more is asked for."),
    # What must never leave
    ("OUT-01", ALL, CLIENTS, "No byte order mark, no carriage return, nothing but ASCII."),
    ("OUT-02", ALL, CLIENTS, "No half of a surrogate pair."),
    ("OUT-03", ALL, CLIENTS, "No NaN, no infinity, no integer beyond 2^53 but an echoed id."),
    ("OUT-04", ALL, CLIENTS, "No nesting of 100 levels."),
    ("OUT-05", ALL, CLIENTS, "No line over 8 MiB."),
    ("OUT-06", ALL, CLIENTS, "No id of another type, no missing or further key in a message."),
    ("OUT-07", ALL, CLIENTS, "No null but the id of an error."),
    ("OUT-08", ALL, CLIENTS, "No result without content, of unknown content, or with a "
     "structuredContent that is no object."),
    ("OUT-09", ALL, CLIENTS, "No tool without an inputSchema of type object with plain members."),
    ("OUT-10", ALL, CLIENTS, "No outputSchema of another type than object."),
    ("OUT-11", STRUCTURED, CLIENTS, "No success without the object that its outputSchema asks."),
    ("OUT-12", ALL, CLIENTS, "No handshake with a version or capability of another shape."),
    ("OUT-13", ALL, CLIENTS, "No resource and no link without a name."),
    # The client
    ("CLIENT-01", ALL, CLIENTS, "What is absent is omitted; there is no key but those that must."),
    ("CLIENT-02", ALL, CLIENTS, "What a server could not take is refused before it is sent."),
    ("CLIENT-03", ALL, HOSTS, "Noise, marks and unknown answers are skipped, never answered."),
    ("CLIENT-04", ALL, HOSTS, "An answer may have its id as text, and a line of 17 MB."),
    ("CLIENT-05", HANDSHAKE, LIFECYCLE, "ping gets {}, a question that is not foreseen -32601."),
    ("CLIENT-06", MODERN, "basic", "Nothing that a server asks is answered."),
    ("CLIENT-07", ALL, VERSIONING, "The era is probed; silence, errors and a death lead back."),
    ("CLIENT-08", MODERN, VERSIONING, "Where -32022 names a version in common, it is used."),
    ("CLIENT-09", ALL, "server/utilities/pagination", "Cursors are followed, never in a circle."),
    ("CLIENT-10", ALL, LIFECYCLE, "A request that takes too long is cancelled; late answers go."),
    ("CLIENT-11", ALL, LIFECYCLE, "stderr is drained, and its end told when a server dies."),
    ("CLIENT-12", ALL, LIFECYCLE, "Input ends, then SIGTERM, then SIGKILL: no process is left."),
    ("CLIENT-13", MODERN, "basic/patterns, MRTR", "Required input is given, with its state."),
)  # fmt: skip
REQUIREMENTS = {row[0]: Requirement(*row) for row in _ROWS}
assert len(REQUIREMENTS) == len(_ROWS), "an id stands twice"


def proves(*ids: str) -> Callable[[T], T]:
    """Says which requirements a test proves. KeyError for one that is not listed."""
    for id_ in ids:
        REQUIREMENTS[id_]
    return lambda test: test


def page() -> str:
    """``docs/requirements.md``."""
    rows = [
        f"| {each.id} | {each.text}{f' *Not tested: {each.gap}.*' if each.gap else ''} "
        f"| {each.versions} | {each.source} |"
        for each in REQUIREMENTS.values()
    ]
    return "\n".join(
        [
            "<!-- Written by `python -m tests.protocol.requirements docs`. -->\n",
            "# What the wire must do\n",
            "Each sentence is proved by a test that carries its id, or says why none does. Where "
            "the source is not a page of the specification, or a section of JSON-RPC, it is what "
            "known hosts or the official clients were seen to need.\n",
            "| id | requirement | versions | source |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1], "requirements.md").write_text(page(), encoding="utf-8", newline="\n")
