"""``python -m convmem`` is the command ``convmem``."""

import sys

from convmem.cli import main

sys.exit(main())
