"""A memory as a file, and files of many kinds into a memory.

lines fields     the lines of an export, written and strictly read
exporting picture    a memory's lines, as it is at one moment
incoming         what an import takes in, from whatever source
export_file sources    files of ours, and of others
plan transaction    what an import comes to; all of it or nothing
"""

from convmem.transfer.exporting import exported_lines, manifest_of
from convmem.transfer.incoming import Findings, Incoming, Source
from convmem.transfer.picture import picture
from convmem.transfer.plan import POLICIES, Outcome, Policy
from convmem.transfer.transaction import import_all

__all__ = [
    "POLICIES",
    "Findings",
    "Incoming",
    "Outcome",
    "Policy",
    "Source",
    "exported_lines",
    "import_all",
    "manifest_of",
    "picture",
]
