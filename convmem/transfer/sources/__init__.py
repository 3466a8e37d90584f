"""Files that hold conversations of other programs, as sources of an import.

detect           which of them a file or folder is
claude_code codex chatgpt claude_ai chat_lines memory_server    one module for each
turns            what was said, as messages of ours
trees            conversations with branches
pieces           files, folders, zips, and JSON out of them
"""

from convmem.transfer.sources.detect import detect

__all__ = ["detect"]
