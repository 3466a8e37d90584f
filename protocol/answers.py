"""What a server may ask of a client, and who answers.

    handshake era   a request from the server, answered by a response
    modern era      a result of type "input_required" names requests; the client repeats its own
                    request with their answers and the server's state, as often as it is asked

A client announces what it has an answerer for, and nothing else.
Source: the specification's pages client/* (to 2025-11-25) and basic/utilities/mrtr (2026-07-28).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from .errors import ErrorCode, RpcError

Answer = Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]]
"""From the params of a server's request to its result. May raise RpcError."""

_CAPABILITIES: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class Answers:
    """By method. ValueError for one that no server may ask."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        if unknown := set(answers) - set(_CAPABILITIES):
            raise ValueError(f"no server asks {', '.join(sorted(unknown))}")
        self._answers = answers

    @property
    def capabilities(self) -> Mapping[str, object]:
        """What the client announces."""
        return {_CAPABILITIES[method]: {} for method in self._answers}

    async def answer(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """RpcError for a method without an answerer, and what the answerer raises."""
        if method == "ping":
            return {}
        if method not in self._answers:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found")
        return await self._answers[method](params)

    async def inputs(self, required: Mapping[str, object]) -> Mapping[str, object]:
        """What to add to a request that got this result: answers, and the state if there is one."""
        requests = required.get("inputRequests")
        responses: dict[str, object] = {}
        for key, request in requests.items() if isinstance(requests, Mapping) else ():
            if not isinstance(request, Mapping):
                raise RpcError(ErrorCode.INVALID_PARAMS, f"inputRequests.{key} must be an object")
            params = request.get("params")
            responses[key] = await self.answer(
                str(request.get("method")), params if isinstance(params, Mapping) else {}
            )
        state = {"requestState": required["requestState"]} if "requestState" in required else {}
        return {"inputResponses": responses, **state}
