"""Who read a fact and who looked for what: lines of JSON beside the log, for a person to read.

    audit/00000007.jsonl    read   := {"at", "client_id", "action": "read", "key"}
                            search := {"at", "client_id", "action": "search", "query", "winner",
                                       "score"}

The newest files are kept, each of a bounded size. Nothing rests on them: no line is flushed, one
that a crash cut short is passed over, and what fails here is told in the health report and
fails nothing else.
"""

import json
from collections.abc import Collection, Iterator

from convmem.limits import AUDIT_FILE_BYTES_MAX, AUDIT_FILES_MAX
from convmem.operations import JsonObject
from convmem.storage import AUDIT, Disk, File


class Audit:
    """The notes in the directory of a disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None
        self._size = 0
        self.entries = 0
        self.failure: str | None = None

    def note(self, entry: JsonObject) -> None:
        """Write a line. Never raises."""
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            if self._file is None or self._size + len(line) > AUDIT_FILE_BYTES_MAX:
                self._begin_file()
            assert self._file is not None
            self._file.pwrite(self._size, line)
            self._size += len(line)
            self.entries += 1
        except Exception as error:
            self.failure = f"a read was not noted: {error}"

    def reads_of(self, key: str) -> Iterator[JsonObject]:
        """What is known of reads of a key and of searches that it won, the newest first."""
        try:
            for name in reversed(self._names()):
                for line in reversed(self._lines(name)):
                    entry = _parsed(line)
                    if key in (entry.get("key"), entry.get("winner")):
                        yield entry
        except OSError as error:
            self.failure = f"the notes cannot be read: {error}"

    def forget(self, keys: Collection[str]) -> None:
        """Leave out the reads of these keys, and every search: it may say what a value said.

        Never raises.
        """
        try:
            self.close()
            for name in self._names():
                lines = self._lines(name)
                kept = [line for line in lines if _tells_of_others(_parsed(line), keys)]
                if len(kept) < len(lines):
                    self._disk.unlink(name)
                    if kept:
                        self._write_anew(name, kept)
        except Exception as error:
            self.failure = f"notes of what was purged may be left: {error}"

    def report(self) -> JsonObject:
        """For the health report: what was noted since the start, and what could not be."""
        told: JsonObject = {"entries": self.entries}
        return told if self.failure is None else told | {"failure": self.failure}

    def close(self) -> None:
        """Let go of the file; the next note begins another."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_file(self) -> None:
        """Go on in the newest file if it has room, else in a new one."""
        was_open = self._file is not None
        self.close()
        names = self._names()
        if names and not was_open and self._go_on(names[-1]):
            return
        newest = int(names[-1].partition("/")[2].partition(".")[0]) if names else 0
        self._file = self._disk.create(f"{AUDIT}/{newest + 1:08}.jsonl")
        self._size = 0
        for name in names[: max(0, len(names) + 1 - AUDIT_FILES_MAX)]:
            self._disk.unlink(name)

    def _go_on(self, name: str) -> bool:
        """Open a file of an earlier server, its last line ended; False if it is full."""
        file = self._disk.open(name)
        size = file.size()
        if size > AUDIT_FILE_BYTES_MAX // 2:
            file.close()
            return False
        if size and file.pread(size - 1, 1) != b"\n":
            file.pwrite(size, b"\n")
            size += 1
        self._file, self._size = file, size
        return True

    def _write_anew(self, name: str, lines: list[bytes]) -> None:
        file = self._disk.create(name)
        try:
            file.pwrite(0, b"\n".join(lines) + b"\n")
        finally:
            file.close()

    def _names(self) -> list[str]:
        return sorted(f"{AUDIT}/{name}" for name in self._disk.names(AUDIT))

    def _lines(self, name: str) -> list[bytes]:
        file = self._disk.open(name, writable=False)
        try:
            return file.pread(0, file.size()).split(b"\n")[:-1]
        finally:
            file.close()


def _tells_of_others(entry: JsonObject, keys: Collection[str]) -> bool:
    """Whether an entry is a read of none of the keys."""
    return "key" in entry and entry["key"] not in keys


def _parsed(line: bytes) -> JsonObject:
    """The entry of a line; an empty one for a line that a crash cut short."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
