"""The fixtures that need input of the client's: results of type ``input_required``.

Such a result asks; the client repeats its request with ``inputResponses`` and, untouched, the
``requestState``. The state is signed: what comes back changed is refused.
Source: the specification's page basic/utilities/mrtr (2026-07-28).
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from convmem.protocol import Call, ErrorCode, RpcError

from .content import Json, content, elicitation, sampling, text

Params = Mapping[str, object]
Answer = Callable[[Params, Call], Awaitable[Mapping[str, object]]]

_KEY: Final = secrets.token_bytes(32)
_ROOTS: Final[Json] = {"method": "roots/list", "params": {}}


def _elicit(message: str, name: str, kind: str = "string") -> Json:
    return {
        "method": "elicitation/create",
        "params": elicitation(message, **{name: {"type": kind}}),
    }


def _sample(prompt: str) -> Json:
    return {"method": "sampling/createMessage", "params": sampling(prompt)}


def _signed(state: str) -> str:
    return f"{state}.{hmac.digest(_KEY, state.encode(), 'sha256').hex()}"


def _required(requests: Mapping[str, Json], state: str | None = None) -> Json:
    signed = {} if state is None else {"requestState": _signed(state)}
    return {"resultType": "input_required", "inputRequests": requests, **signed}


def _given(params: Params) -> Mapping[str, Json]:
    """The inputs that came and are objects; any others are as if they had not come."""
    responses = params.get("inputResponses")
    items = responses.items() if isinstance(responses, dict) else ()
    return {key: response for key, response in items if isinstance(response, dict)}


def _state(params: Params) -> str | None:
    """The state that came back. RpcError if it is not as it was given."""
    state = params.get("requestState")
    if state is None:
        return None
    plain = str(state).partition(".")[0]
    if not hmac.compare_digest(str(state).encode(), _signed(plain).encode()):
        raise RpcError(ErrorCode.INVALID_PARAMS, "requestState is not what the server gave")
    return plain


def _asking(requests: Mapping[str, Json], state: str | None = None) -> Answer:
    """A tool that asks until it has been given everything, and with its state if it has one."""

    async def answer(params: Params, call: Call) -> Mapping[str, object]:
        given = _given(params)
        if _state(params) != state or not requests.keys() <= given.keys():
            return _required(requests, state)
        return content(text(f"state-ok: {[given[key] for key in requests]}"))

    return answer


async def _two_rounds(params: Params, call: Call) -> Mapping[str, object]:
    given = _given(params)
    match _state(params):
        case "second" if "step2" in given:
            return content(text("Both steps are done."))
        case "first" if "step1" in given:
            color = _elicit("Step 2: What is your favorite color?", "color")
            return _required({"step2": color}, "second")
        case _:
            return _required({"step1": _elicit("Step 1: What is your name?", "name")}, "first")


async def _as_announced(params: Params, call: Call) -> Mapping[str, object]:
    """Asks only what the client announces that it can answer."""
    possible = {
        "elicitation": _elicit("What is your name?", "name"),
        "sampling": _sample("Say hello."),
        "roots": _ROOTS,
    }
    return _required(
        {name: request for name, request in possible.items() if name in call.client_capabilities}
    )


async def prompt(params: Params, call: Call) -> Mapping[str, object]:
    """The prompt that needs input."""
    given = _given(params).get("user_context")
    if given is None:
        question = _elicit("What context should the prompt use?", "context")
        return _required({"user_context": question})
    return {"messages": [{"role": "user", "content": text(f"Use this context: {given}")}]}


_NAME: Final = _elicit("What is your name?", "name")
_CONFIRM: Final = {"confirm": _elicit("Please confirm", "ok", "boolean")}
_PREFIX: Final = "test_input_required_result_"
TOOLS: Final[Mapping[str, Answer]] = {
    "test_streaming_elicitation": _asking({"user_name": _NAME}),
    _PREFIX + "elicitation": _asking({"user_name": _NAME}),
    _PREFIX + "sampling": _asking({"capital_question": _sample("What is the capital of France?")}),
    _PREFIX + "list_roots": _asking({"client_roots": _ROOTS}),
    _PREFIX + "request_state": _asking(_CONFIRM, "confirming"),
    _PREFIX + "tampered_state": _asking(_CONFIRM, "confirming"),
    _PREFIX + "multiple_inputs": _asking(
        {"user_name": _NAME, "greeting": _sample("Generate a greeting"), "client_roots": _ROOTS},
        "asking",
    ),
    _PREFIX + "multi_round": _two_rounds,
    _PREFIX + "capabilities": _as_announced,
}
