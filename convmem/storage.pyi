# ../storage installs as convmem.storage; this line tells type checkers and editors so.
from storage import *
