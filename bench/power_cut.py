"""Cut the power under a store on real file systems, again and again, and compare.

    sudo python -m bench.power_cut [--cuts N] [--file-systems ext4 xfs] [--seed N]

A writer appends numbered records to a store on a loop device, writes snapshots and compacts,
and says what it tries and what was acknowledged. At a random moment it is stopped and the file
system is shut down without flushing its journal (the shutdown ioctl that ext4 and XFS have):
what was not synced is gone. After unmounting and mounting, which replays the journal, every
acknowledged record must be there, at most the one that was tried besides, and the store must
go on. Exit status 1 if not; 2 where this cannot run: it takes Linux, root, a loop device and
the tools that make the file system.

The writer is stopped first because a sync in flight may otherwise be told that it succeeded.
"""

import argparse
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from convmem.storage import (
    Cut,
    Entry,
    Environment,
    OsDisk,
    Record,
    Section,
    StorageError,
    Store,
)

if sys.platform == "linux":
    import fcntl

# _IOR('X', 125, u32) of the kernel's XFS and ext4 headers; 2: without flushing the journal.
GOING_DOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2

IMAGE_BYTES = 320 << 20  # XFS takes no less than 300 MiB
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
STOP_TIMEOUT_S = 5.0
CUT_AFTER_S = (0.05, 0.25)
SNAPSHOT_EVERY, COMPACT_EVERY = 23, 61
# Of this many cuts one begins with no store, so that creation is cut too.
NEW_STORE_EVERY = 4


class Numbers:
    """An application over the records 0, 1, 2 and so on; a snapshot says how many there are."""

    known_types = frozenset({1})

    def __init__(self) -> None:
        self.count = 0
        self.wrong = 0

    def restore(self, sections: Mapping[int, memoryview]) -> None:
        self.count = int.from_bytes(sections[1], "little")

    def reset(self) -> None:
        self.count = self.wrong = 0

    def replay(self, entry: Entry) -> None:
        self.wrong += entry.payload != payload_of(self.count)
        self.count += 1


def payload_of(number: int) -> bytes:
    """Text of some size up to 6 KB, zeros in some."""
    text = b"%d " % number
    return text * (number * 7919 % 1500) + bytes(600 if number % 5 == 0 else 0)


def open_store(folder: Path, numbers: Numbers) -> Store:
    environment = Environment(lambda: time.time_ns() // 1_000_000, os.urandom, bytes(16))
    return Store.open(OsDisk(folder), environment, numbers)


def write(folder: Path) -> None:
    """Append for ever, saying what is tried and what is acknowledged."""
    numbers = Numbers()
    store = open_store(folder, numbers)
    while True:
        number = numbers.count
        print("try", number, flush=True)
        for entry in store.append([Record(1, payload_of(number))]):
            numbers.replay(entry)
        print("ack", number, flush=True)
        if number % SNAPSHOT_EVERY == 0:
            count = Section(1, 8, numbers.count.to_bytes(8, "little"))
            store.write_snapshot(store.position(), [count], (numbers.count, 0))
        if number % COMPACT_EVERY == 0:
            compacted = store.compact(
                (Record(1, payload_of(kept)) for kept in range(numbers.count)),
                (numbers.count, 0),
                expected_bytes=store.position().offset,
                on_entry=lambda entry: None,
                progress=lambda records: None,
            )
            store.switch(compacted)
            store.retire()


@dataclass(slots=True)
class Tally:
    """What happened on one file system."""

    cuts: int = 0
    acknowledged: int = 0
    torn: int = 0
    leftovers: int = 0
    wrong: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Cut the power under a store.")
    parser.add_argument("--cuts", type=int, default=60, help="on each file system")
    parser.add_argument("--file-systems", nargs="+", choices=MAKE, default=list(MAKE))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write)
    wrong = 0
    for kind in options.file_systems:
        if reason := _cannot_run(kind):
            print(f"{kind}: cannot run here: {reason}")
            return 2
        began = time.perf_counter()
        tally = cut_often(kind, options.cuts, random.Random(options.seed))
        each_ms = (time.perf_counter() - began) / options.cuts * 1e3
        print(
            f"{kind:<5} {tally.cuts} cuts, {tally.acknowledged} acknowledged, {tally.torn} torn"
            f" tails, {tally.leftovers} leftovers, {tally.wrong} wrong; {each_ms:.0f} ms a cut"
        )
        wrong += tally.wrong
    return 1 if wrong else 0


def _cannot_run(kind: str) -> str | None:
    if sys.platform != "linux":
        return "the shutdown ioctl is Linux's"
    if os.geteuid() != 0:
        return "mounting takes root"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    if shutil.which(MAKE[kind][0]) is None:
        return f"{MAKE[kind][0]} is not installed"
    return None


def cut_often(kind: str, cuts: int, chance: random.Random) -> Tally:
    """Cut that many times on a fresh file system."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="convmem-power-") as folder:
        image, mount_point = Path(folder) / "disk.img", Path(folder) / "mnt"
        mount_point.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run([*MAKE[kind], str(image)], check=True)
        acknowledged = 0
        for number in range(cuts):
            store = mount_point / f"store-{number // NEW_STORE_EVERY}"
            if number % NEW_STORE_EVERY == 0:
                acknowledged = 0
            with _mounted(image, mount_point):
                tried, acked = _cut_once(mount_point, store, acknowledged, chance)
            with _mounted(image, mount_point):
                tally.acknowledged += acked - acknowledged
                acknowledged = _verify(store, tried, acked, tally)
            if tally.wrong:
                break
    return tally


@contextmanager
def _mounted(image: Path, mount_point: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "loop", str(image), str(mount_point)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)


def _cut_once(
    mount_point: Path, store: Path, acknowledged: int, chance: random.Random
) -> tuple[int, int]:
    """Run a writer and cut the power; how many records were tried and acknowledged in all."""
    command = [sys.executable, "-m", "bench.power_cut", "--write", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = []
        if chance.random() < 0.8:  # else cut within opening or creation
            said.append(writer.stdout.readline())
        time.sleep(chance.uniform(*CUT_AFTER_S))
        writer.send_signal(signal.SIGSTOP)
        _wait_until_stopped(writer)
        _shut_down(mount_point)
        writer.kill()
        said += writer.stdout.readlines()
    acks = [line for line in said if line.startswith("ack") and line.endswith("\n")]
    tries = [line for line in said if line.startswith("try")]
    acked = int(acks[-1].split()[1]) + 1 if acks else acknowledged
    return max(acked, acked + len(tries) - len(acks)), acked


def _wait_until_stopped(writer: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while writer.poll() is None:
        status = Path(f"/proc/{writer.pid}/stat").read_text()
        if status.rpartition(")")[2].split()[0] == "T":
            return
        if deadline < time.monotonic():
            raise TimeoutError("the writer does not stop")
        time.sleep(0.001)
    raise RuntimeError("the writer ended by itself")


def _shut_down(mount_point: Path) -> None:
    descriptor = os.open(mount_point, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, GOING_DOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
    finally:
        os.close(descriptor)


def _verify(folder: Path, tried: int, acked: int, tally: Tally) -> int:
    """Open what the cut left and count it; how many records there are."""
    tally.cuts += 1
    numbers = Numbers()
    try:
        store = open_store(folder, numbers)
    except StorageError as error:
        print(f"after {acked} acknowledged: {error}")
        tally.wrong += 1
        return acked
    status = store.status()
    store.close()
    tally.torn += isinstance(status.recovery, Cut)
    tally.leftovers += len(status.removed)
    if numbers.wrong or not acked <= numbers.count <= tried:
        print(f"{acked} acknowledged, {tried} tried, {numbers.count} found, {numbers.wrong} wrong")
        tally.wrong += 1
    return numbers.count


if __name__ == "__main__":
    sys.exit(main())
