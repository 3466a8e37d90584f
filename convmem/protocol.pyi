# ../protocol installs as convmem.protocol; this line tells type checkers and editors so.
from protocol import *
