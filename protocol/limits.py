"""Every limit of the wire, each with its reason.

Owns numbers and nothing else. What limits a particular tool's arguments stands in its
declaration; what is here holds for any server and client of this package.
"""

from typing import Final

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""One line in. The largest message of a host is a text of 1 MiB with every byte escaped as
six; the rest is room. A longer line is discarded to its end, so that it costs no memory."""

REPLY_BYTES_MAX: Final = 8 * 1024 * 1024
"""One line out. Clients are known that leave the connection at a line of 10 MiB."""

NESTING_MAX: Final = 128
"""Arrays and objects inside each other, in. Python's JSON reader gives up near 1,000 levels,
some peers at 200; no tool of ours needs more than five."""

ID_CHARS_MAX: Final = 65_536
"""A request id or progress token as text. It comes back in every answer, error answers
included, and must therefore stay small beside ``REPLY_BYTES_MAX``."""

QUOTE_CHARS_MAX: Final = 80
"""What an error message repeats of a peer's own words."""

INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""

REQUESTS_IN_FLIGHT_MAX: Final = 64
"""Requests worked on at once by a server; it reads no further while so many run. Also the
most messages in one batch."""

BACKLOG_BYTES_MAX: Final = 4 * 1024 * 1024
"""Output that waits for a slow reader; above it a server reads no further requests."""

PARSE_ERRORS_ANSWERED_MAX: Final = 16
"""Unreadable lines that get an answer. Two peers that answer each other's noise would
otherwise never stop."""

READ_BYTES: Final = 65_536
"""Asked of the operating system at a time: the capacity of a pipe on Linux."""

AT_ONCE_BYTES_MAX: Final = 65_536
"""Written by the event loop itself, as far as a pipe or socket takes it at once. More than a
pipe of Linux holds has to wait in any case: a thread does that."""

STDERR_TAIL_BYTES: Final = 8_192
"""What a client keeps of a server's last words."""

DESCRIPTION_CHARS_MAX: Final = 599
"""Of a tool. Hosts cut at 2,048; a model reads every one of them in every turn."""

PROPERTIES_MAX: Final = 16
"""Of one object in a schema. A model fills in few of many."""

DEPTH_MAX: Final = 3
"""Objects inside each other in a schema: some hosts take no more."""

COMPLETIONS_MAX: Final = 100
"""Values in one answer to ``completion/complete``: what the specification allows."""

URI_CHARS_MAX: Final = 8_192
"""Of a resource that a peer subscribes to: it is kept, and comes back with every change."""

SUBSCRIPTIONS_MAX: Final = 1024
"""Resources whose changes one peer hears of, and requests of one peer to hear of changes. Each
costs memory for as long as the connection lasts."""

PROGRESS_DELAY_S: Final = 1.0
"""No progress is reported before. One host drops a server whose progress arrives together
with the answer, and a call this short needs none."""

FINISH_TIMEOUT_S: Final = 1.0
"""For calls in flight when the input ends."""

CANCEL_TIMEOUT_S: Final = 0.2
"""For cancelled calls to come to their end."""

CLOSE_TIMEOUT_S: Final = 1.8
"""From the first reason to stop to the end of the process, whatever blocks. Hosts wait two
seconds before they kill."""

PARENT_POLL_S: Final = 1.0
"""Between two looks at whether the host still lives: an orphan may never see its input end."""

REQUEST_TIMEOUT_S: Final = 30.0
"""A client's patience for one answer unless told otherwise: hosts give 60 s or less."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""One line in of a client: servers are known that have no limit of their own."""

DISCOVER_TIMEOUT_S: Final = 2.5
"""A client's patience for an answer to ``server/discover``. An old server may be silent about
what it does not know, and a person waits."""

INPUTS_MAX: Final = 10
"""Times that one request may ask a client for more input."""

PAGES_MAX: Final = 100
"""Of one list, asked for by a client: a server whose cursors never end must not hold it."""

TERMINATE_TIMEOUT_S: Final = 2.0
"""A client's patience for a server to leave, after its input ends and again after SIGTERM."""

assert FINISH_TIMEOUT_S + CANCEL_TIMEOUT_S < CLOSE_TIMEOUT_S < TERMINATE_TIMEOUT_S
assert 2 * ID_CHARS_MAX * len(r"\uffff") < REPLY_BYTES_MAX < LINE_BYTES_MAX
