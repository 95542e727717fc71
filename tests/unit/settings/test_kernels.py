from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.settings.kernels import KernelPattern

NAME = "Default/network-AlexNet/conv3-Conv2d/convolution-op0"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (NAME, "name"),
        ("convolution-op12", "name"),
        ("Default/network-AlexNet", "name"),
        ("conv", "type"),
        ("Linear", "type"),
        ("my-op", "type"),
        ("name-regex(Default/.+)", "regex"),
        ("  name-regex(a b)  ", "regex"),
        ("regex(a)", "type"),
    ],
)
def test_kind(text: str, kind: str) -> None:
    pattern = KernelPattern.parse(text)
    assert pattern.kind == kind
    assert pattern.text == text


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        (NAME, True),
        (NAME.lower(), False),
        (NAME[:-1], False),
        ("convolution-op0", False),
        ("conv", True),
        ("CONVOL", True),
        ("conv2D", True),
        ("Linear", False),
        ("AlexNet", False),
        ("network", False),
        ("name-regex(Default/.+)", True),
        ("name-regex(conv3)", False),
        (r"name-regex(.*convolution-op\d+)", True),
        (r"name-regex(.*/conv\d-Conv2d/.*)", True),
        ("name-regex(.*\\.op0)", False),
        ("name-regex((?i)DEFAULT/.*)", True),
        ("name-regex(.* conv.*)", False),
    ],
)
def test_matches(text: str, matched: bool) -> None:
    assert KernelPattern.parse(text).matches(NAME, "convolution", "Conv2d") is matched


def test_type_matches_the_innermost_module_class() -> None:
    linear = KernelPattern.parse("linear")
    assert linear.matches("Default/network-Net/fc1-Linear/addmm-op0", "addmm", "Linear")
    assert not linear.matches("Default/network-Net/relu-op0", "relu", "Net")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("name-regex()", "empty"),
        ("name-regex(a", "closes"),
        ("name-regex(a(b)", "missing ), unterminated subpattern at position 1"),
        ("name-regex([z-a])", "bad character range z-a at position 1"),
        ("name-regex(ab*+*)", "at position"),
        ("name-regex(a{99999999999999})", "bad regular expression"),
    ],
)
def test_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        KernelPattern.parse(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [1, None, True, ["conv"]])
def test_only_strings(value: object) -> None:
    with pytest.raises(ValueError, match="must be a string"):
        KernelPattern.parse(value)


@pytest.mark.filterwarnings("error")
def test_a_doubtful_expression_does_not_print_warnings() -> None:
    assert KernelPattern.parse("name-regex([[a].*)").kind == "regex"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("name-regex(conv3)", "name-regex(.*conv3.*)"),
        ("name-regex(fc1)", ""),
        ("name-regex(.*)", ""),
        ("convolution-op0", f'the full name is "{NAME}"'),
        ("Convolution-op0", f'the full name is "{NAME}"'),
        ("convolution-op1", ""),
        (NAME.upper(), "the case differs"),
        (NAME, ""),
        ("Default/network-AlexNet/conv3-Conv2d", "is a scope"),
        ("Default/network-AlexNet/conv3-Conv2d/", "is a scope"),
        ("Default/network-AlexNet/conv3", ""),
        ("alexnet", "name-regex(.*alexnet.*)"),
        ("softmax", ""),
    ],
)
def test_near_miss(text: str, hint: str) -> None:
    found = KernelPattern.parse(text).near_miss(NAME)
    assert hint in found if hint else found == ""


def test_the_proposed_expression_for_a_scope_matches() -> None:
    hint = KernelPattern.parse("Default/network-AlexNet").near_miss(NAME)
    proposed = KernelPattern.parse(hint[hint.index("name-regex(") :])
    assert proposed.matches(NAME, "", "")


@given(st.text(alphabet="aAbB", min_size=1, max_size=3), st.text(alphabet="aAbB", max_size=8))
def test_type_is_a_substring_in_any_case(text: str, op_type: str) -> None:
    reference = re.search(text, op_type, re.IGNORECASE) is not None
    assert KernelPattern.parse(text).matches("x", op_type, "") is reference
    assert KernelPattern.parse(text).matches("x", "", op_type) is reference


@given(st.from_regex(r"[ab.*]{1,6}", fullmatch=True), st.text(alphabet="ab", max_size=6))
def test_regex_is_a_full_match(expression: str, name: str) -> None:
    try:
        reference = re.fullmatch(expression, name) is not None
    except re.error:
        with pytest.raises(ValueError):
            KernelPattern.parse(f"name-regex({expression})")
    else:
        assert KernelPattern.parse(f"name-regex({expression})").matches(name, "", "") is reference
