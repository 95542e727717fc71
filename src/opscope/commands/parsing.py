"""The parser of the command line: no abbreviations, and a hint where a word is mistyped."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from opscope.errors import OpscopeError
from opscope.settings.checks import alternatives, did_you_mean

_CHOICE = re.compile(r"argument (?P<what>\S+): invalid choice: '(?P<word>[^']*)' \(choose from")


_MISSING = re.compile(r"the following arguments are required: (?P<names>.*)")
_NO_INTEGER = re.compile(r"argument (?P<option>\S+): invalid int value: '(?P<value>.*)'$")


def count(text: str) -> int:
    """A number that is not negative, for an option."""
    number = int(text) if text.strip().isdecimal() else -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number of at least 0")
    return number


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fits the sentences of a description to the terminal, and leaves tables as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = [self._fitted(part, width) for part in text.split("\n\n")]
        return "\n\n".join(parts)

    def _fitted(self, part: str, width: int) -> str:
        is_table = any("  " in line for line in part.splitlines())
        return part if is_table else textwrap.fill(part, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Every problem of a command line as an error of one line, with the command to look it up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["allow_abbrev"] = False
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, not how the whole command line may look."""
        found = _CHOICE.match(message)
        if found is not None and found["what"] == "VERB":
            message = f"{found['word']} is no verb{did_you_mean(found['word'], self._verbs())}"
        elif found is not None:
            choices = [each.strip(" ')") for each in message[found.end() :].split(",")]
            meant = did_you_mean(found["word"], choices)
            message = f"{found['what']} = {found['word']}: must be {alternatives(choices)}{meant}"
        missing = _MISSING.match(message)
        if missing is not None:
            message = f"{self.prog} needs {missing['names']}"
        wrong = _NO_INTEGER.match(message)
        if wrong is not None:
            message = f"{wrong['option']} = {wrong['value']}: must be a whole number"
        raise OpscopeError(f"{message}; {self.prog} --help says more")

    def again(self, verb: str, words: Sequence[str]) -> argparse.Namespace | None:
        """The arguments of a verb from words in any order, such as `show last --rank 0 conv3`.

        None if it can make nothing of them.
        """
        parser = self._choices()[verb]
        try:
            args, unknown = parser.parse_known_intermixed_args(list(words))
        except OpscopeError:
            return None
        return None if unknown else args

    def options(self, verb: str) -> list[str]:
        """The options of a verb."""
        parser = self._choices().get(verb)
        return sorted(parser._option_string_actions) if parser is not None else []

    def unknown(self, verb: str, words: Sequence[str]) -> list[str]:
        """Say what is wrong with words that a verb knows nothing of."""
        options = self.options(verb)
        mistyped = [word.partition("=")[0] for word in words if word.startswith("-")]
        if mistyped:  # other words are the values of these
            return [
                f"opscope {verb} has no option {word}{did_you_mean(word, options)}"
                for word in mistyped
            ]
        return [f"opscope {verb} does not know what to do with {' '.join(words)}"] if words else []

    def own_options(self) -> list[str]:
        """The options that stand before a verb."""
        return sorted(self._option_string_actions)

    def _verbs(self) -> list[str]:
        return list(self._choices())

    def _choices(self) -> dict[str, argparse.ArgumentParser]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}
