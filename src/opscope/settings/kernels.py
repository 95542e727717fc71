"""Patterns for operators: by full name, by type, or by regular expression."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

from opscope.names import has_index, is_below, last_part
from opscope.settings.checks import InvalidError, kind

_REGEX_OPEN, _REGEX_CLOSE = "name-regex(", ")"


@dataclass(frozen=True)
class KernelPattern:
    """One entry of `kernels`. `kind` is "name", "type" or "regex"; `body` is what is compared."""

    text: str
    kind: str
    body: str
    regex: re.Pattern[str] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: object) -> KernelPattern:
        """Read an entry: `name-regex(...)`, a full operator name, or an operator type."""
        if not isinstance(text, str):
            raise InvalidError(f"must be a string, not {kind(text)}")
        body = text.strip()
        if not body:
            raise InvalidError(
                "is empty; write an operator name, an operator type or name-regex(...)"
            )
        if body.startswith(_REGEX_OPEN):
            return cls._parse_regex(text, body)
        is_name = "/" in body or has_index(body)
        return cls(text, "name" if is_name else "type", body)

    @classmethod
    def _parse_regex(cls, text: str, body: str) -> KernelPattern:
        if not body.endswith(_REGEX_CLOSE):
            raise InvalidError('the ")" that closes name-regex( is missing')
        inner = body[len(_REGEX_OPEN) : -len(_REGEX_CLOSE)]
        if not inner:
            raise InvalidError(
                "the regular expression is empty; name-regex(.*) matches every operator"
            )
        return cls(text, "regex", inner, _compile(inner))

    def matches(self, name: str, op_type: str, module_class: str) -> bool:
        """Tell whether an operator is meant; `module_class` is the innermost module it runs in."""
        if self.kind == "name":
            return name == self.body
        if self.regex is not None:
            return self.regex.fullmatch(name) is not None
        wanted = self.body.lower()
        return wanted in op_type.lower() or wanted in module_class.lower()

    def near_miss(self, name: str) -> str:
        """A hint for an operator that does not match but may have been meant, or nothing."""
        if self.regex is not None:
            return self._near_regex(self.regex, name)
        if self.kind == "type":
            return self._near_type(name)
        return self._near_name(name)

    def _near_regex(self, regex: re.Pattern[str], name: str) -> str:
        if regex.fullmatch(name) or not regex.search(name):
            return ""
        wider = f"name-regex(.*{self.body}.*)"
        return f'only a part of "{name}" matches, and the whole name must; perhaps {wider}'

    def _near_type(self, name: str) -> str:
        if self.body.lower() not in name.lower():
            return ""
        wider = f"name-regex(.*{re.escape(self.body)}.*)"
        return f'it is no operator type or module class, but part of "{name}"; perhaps {wider}'

    def _near_name(self, name: str) -> str:
        if name == self.body:
            return ""
        if name.lower() == self.body.lower():
            return f'the case differs from "{name}"'
        if last_part(name).lower() == self.body.lower():
            return f'the full name is "{name}"'
        if is_below(name, self.body):
            scope = self.body.rstrip("/") + "/"
            return f"it is a scope, not an operator; perhaps name-regex({re.escape(scope)}.*)"
        return ""


def _compile(expression: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(expression)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise InvalidError(
            f"bad regular expression: {error.msg}{place} of {expression!r}"
        ) from None
    except (OverflowError, RecursionError) as error:
        raise InvalidError(f"bad regular expression {expression!r}: {error}") from None
