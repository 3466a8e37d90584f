"""What may be wrong with a place for a store: network file systems and folders that are copied.

On a network file system a lock may hold for one machine only, so two writers could meet; a
folder that a tool copies to other machines, file by file, is no store there, and two of its
copies may grow apart. This file knows the names by which such places are told; it decides
nothing and reads nothing but the table of mounts.
"""

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import Final

NETWORK_TYPES: Final = frozenset(
    {"9p", "cifs", "fuse.rclone", "fuse.sshfs", "nfs", "nfs4", "smb3", "virtiofs"}
)
# The folders of Dropbox, iCloud, OneDrive, Google Drive and their like: a part of the path
# that is one of these, or begins with one and a separator (as "OneDrive - Company").
SYNC_FOLDERS: Final = (
    "CloudStorage",
    "Dropbox",
    "Google Drive",
    "GoogleDrive",
    "iCloud Drive",
    "iCloudDrive",
    "Mobile Documents",
    "Nextcloud",
    "OneDrive",
    "ownCloud",
    "pCloud Drive",
)
# What Syncthing leaves in a folder that it keeps.
SYNCTHING_MARK: Final = ".stfolder"


class HazardKind(Enum):
    """Why a store may not be safe where it is."""

    NETWORK = "on a network file system a lock may hold for one machine only"
    SYNCED = "a tool copies this folder, and its copies of a store in use do not fit together"
    OTHER_HOST = "another machine wrote here last; only one may at a time"


@dataclass(frozen=True, slots=True)
class Hazard:
    """A reason for a warning, and what it was seen by."""

    kind: HazardKind
    detail: str


def hazards_of(path: Path) -> tuple[Hazard, ...]:
    """The hazards of a directory, which need not exist yet."""
    resolved = path.resolve()
    found = []
    if network := _network_type(resolved):
        found.append(Hazard(HazardKind.NETWORK, network))
    if synced := sync_folder(resolved):
        found.append(Hazard(HazardKind.SYNCED, synced))
    return tuple(found)


def sync_folder(path: Path) -> str | None:
    """The part of a resolved path that belongs to a tool that copies folders."""
    for part in path.parts:
        if any(part == name or part.startswith((f"{name} ", f"{name}-")) for name in SYNC_FOLDERS):
            return part
    marked = (folder for folder in (path, *path.parents) if (folder / SYNCTHING_MARK).exists())
    return next((str(folder / SYNCTHING_MARK) for folder in marked), None)


def mounted_type(mountinfo: str, path: PurePath) -> str | None:
    """The file system of a resolved path, by the text of Linux's table of mounts.

    Its lines are described in proc(5): the mount point is the fifth field, and the type
    follows a lone hyphen. Later mounts hide earlier ones.
    """
    found, depth = None, -1
    for line in mountinfo.splitlines():
        before, hyphen, after = line.partition(" - ")
        if not hyphen:
            continue
        # Spaces and their like are written as octal escapes.
        point = PurePath(before.split(" ")[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and depth <= len(point.parts):
            found, depth = after.split(" ")[0], len(point.parts)
    return found


if sys.platform == "linux":

    def _network_type(path: Path) -> str | None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return None  # nothing is known, and that is no reason to refuse
        kind = mounted_type(mountinfo, path)
        return kind if kind in NETWORK_TYPES else None

elif sys.platform == "darwin":
    import ctypes

    # struct statfs of sys/mount.h with 64-bit inodes: f_flags at 64, f_fstypename at 72.
    _STATFS_BYTES: Final = 2168
    _MNT_LOCAL: Final = 0x1000

    def _network_type(path: Path) -> str | None:
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
        status = ctypes.create_string_buffer(_STATFS_BYTES)
        if ctypes.CDLL(None).statfs(bytes(existing), status) != 0:
            return None
        flags = int.from_bytes(status.raw[64:68], "little")
        return None if flags & _MNT_LOCAL else status.raw[72:88].split(b"\0")[0].decode()

elif sys.platform == "win32":
    import ctypes

    _DRIVE_REMOTE: Final = 4

    def _network_type(path: Path) -> str | None:
        if path.drive.startswith("\\\\"):
            return "UNC path"
        kind = ctypes.windll.kernel32.GetDriveTypeW(path.anchor)
        return "network drive" if kind == _DRIVE_REMOTE else None

else:

    def _network_type(path: Path) -> str | None:
        return None
