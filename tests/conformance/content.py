"""What the official suite expects to be served: blocks of content, and questions to a client.

The words are the suite's, as its scenarios describe them; the picture and the sound are the
smallest that are valid.
"""

import base64
import struct
import zlib
from typing import Any, Final

Json = dict[str, Any]


def _png() -> bytes:
    """One grey pixel. PNG, third edition, section 5."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixel = zlib.compress(b"\0\x80")
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """Two silent samples, 8 kHz, mono, 8 bits. RIFF with one "fmt " and one "data" chunk."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI2s", b"data", 2, b"\x80\x80")
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data


PNG: Final = _png()
IMAGE: Final[Json] = {
    "type": "image",
    "data": base64.b64encode(PNG).decode("ascii"),
    "mimeType": "image/png",
}
AUDIO: Final[Json] = {
    "type": "audio",
    "data": base64.b64encode(_wav()).decode("ascii"),
    "mimeType": "audio/wav",
}


def text(text: str) -> Json:
    return {"type": "text", "text": text}


def resource(uri: str, mime_type: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def content(*blocks: Json) -> Json:
    """The result of a call."""
    return {"content": list(blocks)}


def elicitation(message: str, **properties: Json) -> Json:
    """The params of a question to the user; every property must be answered."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"message": message, "requestedSchema": schema}


def sampling(prompt: str) -> Json:
    """The params of a question to the client's model."""
    return {"messages": [{"role": "user", "content": text(prompt)}], "maxTokens": 100}


EVERY_DEFAULT: Final = elicitation(
    "Please check these values",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)

_OPTIONS: Final = ["option1", "option2", "option3"]
_TITLED: Final = [
    {"const": f"value{number}", "title": f"{word} Option"}
    for number, word in enumerate(["First", "Second", "Third"], 1)
]
EVERY_ENUM: Final = elicitation(
    "Please choose",
    untitledSingle={"type": "string", "enum": _OPTIONS},
    titledSingle={"type": "string", "oneOf": _TITLED},
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": _TITLED}},
)

RICH_SCHEMA: Final[Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""Keywords that our own tools never use, to be listed as they are."""
