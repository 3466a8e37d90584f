"""What was said in recorded sessions, held to the official schema of the revision spoken."""

import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

from convmem.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS

from .npm import Installed

Json = dict[str, Any]

HERE = Path(__file__).parent
RECORDER = HERE / "recorder.py"
CHECK_TIMEOUT_S = 60.0
# The suite, whose schemas are used, knows nothing older.
UNKNOWN = HANDSHAKE_VERSIONS[:1]


def messages(log: Path) -> Iterator[Json]:
    """Each message with its ``revision`` and, of a response, the ``method`` that it answers."""
    sessions: dict[int, list[tuple[str, Json]]] = defaultdict(list)
    for row in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(row)
        said = json.loads(entry["line"])
        for message in said if isinstance(said, list) else [said]:
            sessions[entry["session"]].append((entry["from"], message))
    for session in sessions.values():
        yield from _of_session(session)


def _of_session(session: list[tuple[str, Json]]) -> Iterator[Json]:
    agreed = next(
        (
            message["result"]["protocolVersion"]
            for _, message in session
            if "protocolVersion" in message.get("result", {})
        ),
        MODERN_VERSIONS[-1],
    )
    asked: dict[tuple[str, object], tuple[str, str]] = {}
    for who, message in session:
        peer = "client" if who == "server" else "server"
        if "method" in message:
            meta = message.get("params", {}).get("_meta", {})
            revision = meta.get("io.modelcontextprotocol/protocolVersion", agreed)
            asked[who, message.get("id")] = (revision, message["method"])
            yield {"revision": revision, "message": message}
        elif (peer, message.get("id")) in asked:
            revision, method = asked[peer, message["id"]]
            yield {"revision": revision, "message": message, "method": method}


def problems(log: Path, suite: Installed) -> list[str]:
    """What the schemas find wrong."""
    said = [each for each in messages(log) if each["revision"] not in UNKNOWN]
    assert said, "nothing was recorded"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "node_modules").symlink_to(suite.modules)
        copy(HERE / "schemas.mjs", folder)
        finished = subprocess.run(
            [suite.node, "schemas.mjs"],
            cwd=folder,
            input=json.dumps(said),
            capture_output=True,
            encoding="utf-8",
            timeout=CHECK_TIMEOUT_S,
        )
    assert finished.returncode == 0, finished.stderr
    found: list[str] = json.loads(finished.stdout)
    return found
