"""Every limit of the domain, once, each with its reason.

Sizes are UTF-8 bytes unless the name says otherwise. The limits of a wire line belong to
the protocol library and those of a log frame to the storage library. What only tunes a
calculation (how a search works through its postings) stands beside it.
"""

# One message: a long answer or a pasted file fits; a log frame (2 MiB) holds it with its metadata.
CONTENT_BYTES_MAX = 1 << 20

# Ids that hosts choose: long enough for a path or two joined UUIDs.
SESSION_ID_BYTES_MAX = 256
TOOL_CALL_ID_BYTES_MAX = 256
CLIENT_ID_BYTES_MAX = 128

# A ULID is 26 characters of Crockford's base 32.
MESSAGE_ID_BYTES = 26

# Labels: enough to sort by, too few to hide text in.
TAG_BYTES_MAX = 128
TAGS_MAX = 32
IMPORTANCE_MAX = 100

# A summary is a paragraph. What is longer is content.
SUMMARY_BYTES_MAX = 4096

# Links from one message: an answer cites some, a summary covers many.
RELATIONS_MAX = 32
RELATION_TYPE_BYTES_MAX = 64
SOURCES_MAX = 64

# An id that a host brings along may be ahead of our clock by a time zone's mistake, not more:
# later ids must be greater than every id before them.
MESSAGE_ID_AHEAD_MS_MAX = 24 * 3600 * 1000

# Pages, as bytes of their JSON text. A reply is read by a model: 32 KiB is about 8,000 tokens.
# On the wire a reply stands twice, as an object and as text, and escaped to ASCII: a code point
# of two or four bytes takes six bytes for each of its bytes, the worst there is. The greatest
# budget therefore stays below the 8 MiB that a line may have.
REPLY_BYTES_DEFAULT = 32 << 10
REPLY_BYTES_MIN = 8 << 10
REPLY_BYTES_MAX = 5 << 18
REPLY_LINE_BYTES_MAX = 8 << 20
PAGE_ITEMS_DEFAULT = 50
PAGE_ITEMS_MAX = 1000

# Files that a health report names of a kind: a folder may hold thousands.
HEALTH_NAMES_MAX = 20

# What a message takes in a log beside its content: some 130 bytes, and metadata where it is set.
RECORD_BYTES_BESIDE_CONTENT = 512

# A query is a question or a few words; a pasted page is taken too. What a search gives by itself
# is what a model reads in one go.
QUERY_BYTES_MAX = 16 << 10
SEARCH_RESULTS_DEFAULT = 10
# Filters are repeated in the reply as they were understood, or only named where they are longer.
FILTERS_BYTES_MAX = 1024

# How long a search waits for the index of a store that was never indexed: a million messages
# take some 40 s, and hosts give a call a minute.
INDEX_WAIT_S = 50.0

# How long a search waits for its model to be loaded, which takes a second or two; then words do.
SEMANTIC_LOAD_WAIT_S = 10.0
# How long it waits for the little that is not embedded yet.
SEMANTIC_CATCH_UP_WAIT_S = 2.0

# Ids since the last snapshot that are found through a dict. An entry takes some 120 bytes and
# settling them a sort: this many are 8 MB.
IDS_UNSETTLED_MAX = 65_536

# How long a call waits for the owner of a store that is busy, does not answer, or just ended and
# has no successor yet. Hosts give a call a minute; a model should hear sooner.
BUSY_TIMEOUT_MS = 5000
BUSY_TIMEOUT_MS_MAX = 24 * 3600 * 1000
# What an owner may take to give a sign of life, however short a call's patience is.
SILENCE_MS_MIN = 1000

# Of the changes that guests asked for, what the latest came to: who asks again does so within
# seconds of the end of an owner. A compaction keeps those of a minute.
EFFECTS_MAX = 4096
KEY_EFFECTS_MAX = 1024  # of the changes of one fact
EFFECT_KEPT_MS = 60_000

# Of one guest: what it may have under way at its owner, how soon it must greet, and in how much.
GUEST_REQUESTS_MAX = 64
HELLO_TIMEOUT_S = 5.0
HELLO_BYTES_MAX = 4096
# Changes that a guest has yet to be told of. One so far behind does not read any more.
GUEST_CHANGES_MAX = 10_000
# For what a guest has not read when its owner ends, of the second and a half there is.
GUEST_FLUSH_S = 0.3
# Guests of one store. More processes than a person has hosts.
GUESTS_MAX = 256

# How long `convmem call` waits for any server's answer: first starts may download what they run.
CALL_TIMEOUT_S = 60.0
CALL_TIMEOUT_S_MAX = 24 * 3600.0

# For every answer to the demo, on a machine that has other things to do.
DEMO_TIMEOUT_S = 30.0

# A fact is a name and a short text: what is longer is a message.
FACT_KEY_BYTES_MAX = 256
FACT_VALUE_BYTES_MAX = 64 << 10
FACTS_FOUND_DEFAULT = 5
FACTS_FOUND_MAX = 100
# What happened to a key last, as memory_get shows it beside the value.
FACT_EVENTS_SHOWN = 20

# Notes of who read which fact: a few megabytes, the newest.
AUDIT_FILE_BYTES_MAX = 4 << 20
AUDIT_FILES_MAX = 2

# A file to import. A line may be any message with every byte of its text escaped as six. Ids are
# held in memory while it is judged, some 200 bytes each; a larger memory is moved in parts, or by
# copying its directory.
IMPORT_LINE_BYTES_MAX = 6 * (CONTENT_BYTES_MAX + (64 << 10))
IMPORT_RECORDS_MAX = 4_000_000
IMPORT_BYTES_MAX = 64 << 30

# What other programs wrote: a line may hold a picture, and one conversation of an export is in
# memory as a whole; the longest known has 18 million characters. Of what a tool was given or
# said, the beginning tells what it was about.
IMPORT_FOREIGN_LINE_BYTES_MAX = 64 << 20
IMPORT_ELEMENT_CHARS_MAX = 128 << 20
IMPORT_TOOL_TEXT_BYTES_MAX = 8 << 10
# Damaged lines that are named; the rest is counted.
IMPORT_DAMAGE_NAMES_MAX = 20

# Of a debug log, beside as much of the one before it.
DEBUG_LOG_BYTES_MAX = 16 << 20

# What a person types to be reminded of something.
TOPIC_BYTES_MAX = 1024

# An unknown session's name is compared with those of the newest sessions: some 20 ms. A few near
# ones are told.
SESSIONS_COMPARED_MAX = 1000
NEAR_SESSIONS_MAX = 5

# The view around a message: a glance, not a transcript.
NEIGHBOURS_DEFAULT = 3
NEIGHBOURS_MAX = 50
RELATION_DEPTH_DEFAULT = 1
RELATION_DEPTH_MAX = 2
RELATED_MAX = 200

# Of a reply's budget, what the object around the items takes: view, session id (of control
# characters, each escaped as six bytes) and cursor.
ENVELOPE_BYTES = 2048

# A window of one message's content, for what does not fit into a page.
WINDOW_BYTES_DEFAULT = 4096
WINDOW_BYTES_MAX = 64 << 10

# What stands for a whole message or session in a list. With the names around it, all of them of
# control characters (of seven bytes each in an export, which is JSON within JSON), it fits the
# least budget.
EXCERPT_BYTES = 512

# A cursor of ours is far shorter: what is longer need not be decoded to be refused.
CURSOR_BYTES_MAX = 256

assert 6 * REPLY_BYTES_MAX < REPLY_LINE_BYTES_MAX
assert CONTENT_BYTES_MAX < REPLY_BYTES_MAX, "a plain message of any size can be read whole"
assert 6 * SESSION_ID_BYTES_MAX + CURSOR_BYTES_MAX < ENVELOPE_BYTES < REPLY_BYTES_MIN
assert FILTERS_BYTES_MAX + 512 < ENVELOPE_BYTES
assert 7 * (SESSION_ID_BYTES_MAX + EXCERPT_BYTES + CLIENT_ID_BYTES_MAX) + 512 < REPLY_BYTES_MIN
assert REPLY_BYTES_MIN <= REPLY_BYTES_DEFAULT <= REPLY_BYTES_MAX
assert WINDOW_BYTES_DEFAULT <= WINDOW_BYTES_MAX <= CONTENT_BYTES_MAX
assert SUMMARY_BYTES_MAX < 0xFFFF, "the log writes its length in two bytes, 0xFFFF means cleared"
