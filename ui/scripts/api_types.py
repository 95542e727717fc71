"""Writes the page's types of every answer, from the description that the server gives of itself.

Run `npm run types` in ui/ when an answer changes; a test says so if it was forgotten.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from opscope.server.app import create_app
from opscope.server.library import Library

TARGET = Path(__file__).parent.parent / "src" / "api" / "types.ts"
_HEAD = """// Written by scripts/api_types.py from the server's description of its API; do not edit.
"""
_LEFT_OUT = ("HTTPValidationError", "ValidationError")
_SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def types_of(description: dict[str, Any]) -> str:
    """The schemas of an OpenAPI description as TypeScript."""
    schemas = description["components"]["schemas"]
    names = (name for name in sorted(schemas) if name not in _LEFT_OUT)
    return "\n".join([_HEAD, *(_declaration(name, schemas[name]) for name in names)])


def _declaration(name: str, schema: dict[str, Any]) -> str:
    fields = schema.get("properties")
    if fields is None:
        return f"export type {name} = {_type(schema)};\n"
    required = set(schema.get("required", ()))
    lines = [
        f"  {_key(key)}{'' if key in required else '?'}: {_type(field)};"
        for key, field in fields.items()
    ]
    about = " ".join(str(schema.get("description", "")).partition("\n\n")[0].split())
    comment = f"/** {about} */\n" if about else ""
    return f"{comment}export interface {name} {{\n" + "\n".join(lines) + "\n}\n"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(part) for part in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        inner = _type(schema.get("items", {}))
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {_type(more) if isinstance(more, dict) else 'unknown'}>"
    if kind == "null":
        return "null"
    return _SIMPLE.get(str(kind), "unknown")


def main() -> int:
    """Write the types, or with --check say whether they are current."""
    text = types_of(create_app(Library([])).openapi())
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.is_file() and TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
