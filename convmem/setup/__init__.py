"""How a host comes to start a server of ours: its file, and our entry in it. Pure but for paths.

entry                 the command, in full paths
json_text toml_text   text changed in one place, all else kept
hosts                 the hosts, and what each wants
"""

from convmem.setup.entry import NAME, Entry, entry_for
from convmem.setup.hosts import HOSTS, Host

__all__ = ["HOSTS", "NAME", "Entry", "Host", "entry_for"]
