"""What it costs, measured; see ``bench.__main__``.

An installed program has its byte code. Where the environment keeps Python from writing it, every
start would compile all of it again, so that is not passed on to what is measured.
"""

import os

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
