"""Every number of the storage library that is a choice, once, with its reason.

What the bytes themselves fix (header sizes, alignment) is in `format`.
"""

# One frame is one write, and is read and verified as a whole. Twice the largest message
# an application is expected to hold, so that a megabyte of text and its fields fit.
PAYLOAD_BYTES_MAX = 2 << 20

# Reading one small record of a batch verifies the whole batch frame: keep that cheap.
BATCH_BYTES_MAX = 1 << 20

# A scan reads the log piece by piece, so that memory does not grow with the file. One
# piece holds any frame whole, or a damaged frame could not be told from a long one.
SCAN_BYTES = 4 << 20

# A snapshot is worth its writing when this much was appended since the last one: so much
# replays in about 0.1 s, and a log that is larger is not written anew by its fourth part.
SNAPSHOT_TAIL_BYTES = 4 << 20
SNAPSHOT_TAIL_SHARE = 0.25

# Writing a whole file: large enough that the calls cost nothing beside the bytes.
COPY_BYTES = 1 << 20

# A compaction needs room for the new log while the old one is still there, and a little for
# what else uses the disk meanwhile.
COPY_ROOM_SHARE = 1.1

# The first read of one record: most records end within it, so most cost a single read.
RECORD_READ_BYTES = 4096

assert BATCH_BYTES_MAX <= PAYLOAD_BYTES_MAX
assert PAYLOAD_BYTES_MAX * 2 <= SCAN_BYTES
