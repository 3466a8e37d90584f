"""What a test says of an answer: each function makes a check."""

import json
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]


def error(code: int, id_: object = None) -> Check:
    """Whether an answer is this error for this id: 1, 1.0 and "1" are three."""
    return lambda answer: (
        answer["error"]["code"] == code and answer["id"] == id_ and type(answer["id"]) is type(id_)
    )


def result(id_: object, expected: object = None) -> Check:
    return lambda answer: (
        (answer["result"] == expected if expected is not None else "result" in answer)
        and answer["id"] == id_
        and type(answer["id"]) is type(id_)
    )


def says(text: str, id_: object = 1) -> Check:
    return lambda answer: (
        answer["id"] == id_ and answer["result"]["structuredContent"] == {"said": text}
    )


def refuses(code: str, id_: object = 1) -> Check:
    def check(answer: Any) -> bool:
        outcome = answer["result"]
        first, _, rest = outcome["content"][0]["text"].partition("\n")
        told = json.loads(rest)["error"]
        return bool(
            answer["id"] == id_
            and outcome["isError"] is True
            and "structuredContent" not in outcome
            and told["code"] == code
            and first == f"{code}: {told['message']}"
        )

    return check


def agrees(version: str) -> Check:
    return lambda answer: answer["result"]["protocolVersion"] == version
