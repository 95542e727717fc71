from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_dump import NewDump, make_node, npy_names

from opscope.dump.format.names import NameBook, safe, short_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Default/network-Net/conv1-Conv2d/convolution-op0",) * 2,
        ("a.b", "a_b"),
        ("a\\b", "a_b"),
        ("a b\tc\nd", "a_b_c_d"),
        ("a\0b\x7fc\x85d\u3000e", "a_b_c_d_e"),
        ("lone\ud800surrogate", "lone_surrogate"),
        ("größe~1,x", "größe~1,x"),
        ("", "_"),
    ],
)
def test_unsafe_characters_become_underscores(text: str, expected: str) -> None:
    assert safe(text) == expected.replace("/", "_")


@given(st.lists(st.text(min_size=1, max_size=6, alphabet="ab/._ \\~"), unique=True))
def test_different_names_never_share_a_file(names: list[str]) -> None:
    book = NameBook()
    parts = [book.op_name(0, "add", name) for name in names]
    assert len(set(parts)) == len(parts)
    assert parts == [book.op_name(0, "add", name) for name in names]
    assert all(re.fullmatch(r"[^/\\.\s\0]+", part) for part in parts)


def test_a_collision_gets_the_same_suffix_in_every_run() -> None:
    def second() -> str:
        book = NameBook()
        assert book.op_name(0, "add", "a/b") == "a_b"
        return book.op_name(0, "add", "a.b")

    assert second() == second()
    assert re.fullmatch(r"a_b~[0-9a-f]{8}", second())
    assert NameBook().op_name(0, "add", "a.b") == "a_b"


def test_graphs_have_names_of_their_own() -> None:
    book = NameBook()
    assert book.op_name(0, "add", "a/b") == book.op_name(1, "add", "a.b") == "a_b"


def test_length_counts_in_bytes() -> None:
    fits, exceeds = "ä" * 125 + ".npy", "ä" * 126 + ".npy"
    assert short_name(fits) == fits
    assert re.fullmatch(r"[0-9a-f]{20}\.npy", short_name(exceeds))
    assert short_name(exceeds) == short_name(exceeds) != short_name("ö" * 126 + ".npy")


def test_file_names_of_the_seed(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable) as dump:
        node = make_node("Default/network-Net/conv1-Conv2d/convolution-op0", "convolution")
        dump.call(make_node("Default/first-op0", "first"))
        dump.call(
            node, [torch.ones(2), torch.ones(1, dtype=torch.int64)], [torch.ones(3)], stream=7
        )
        dump.end_step()
    prefix = "convolution.Default_network-Net_conv1-Conv2d_convolution-op0.1.7.1700000000000001"
    assert dump.files() == [
        f"{prefix}.input.0.DefaultFormat.float32.npy",
        f"{prefix}.input.1.DefaultFormat.int64.npy",
        f"{prefix}.output.0.DefaultFormat.float32.npy",
    ]


def test_colliding_operators_keep_their_own_files(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, input_output=2) as dump:
        for number, name in enumerate(["D/a.b-op0", "D/a_b-op0", "D/a b-op0"]):
            dump.call(make_node(name), outputs=[torch.tensor([float(number)])])
    names = {name.split(".")[1] for name in dump.files()}
    assert len(names) == 3
    assert dump.load("relu.D_a_b-op0.*")[0] == 0
    assert dump.load("relu.D_a_b-op0~*.1.0.*")[0] == 1
    assert dump.load("relu.D_a_b-op0~*.2.0.*")[0] == 2


def test_op_type_holds_no_dot(new_dump: NewDump) -> None:
    with new_dump(input_output=2) as dump:
        dump.call(make_node("D/x-op0", "my.lib::op/x"), outputs=[torch.ones(1)])
    (name,) = dump.files()
    assert name.startswith("my_lib::op_x.D_x-op0.0.0.")
    assert name.count(".") == 9


def test_names_too_long_are_hashed_and_mapped(new_dump: NewDump, enable: bool) -> None:
    long = "Default/" + "a_quite_long_attribute_name-Block/" * 9
    with new_dump(enable, input_output=2) as dump:
        for number, last in enumerate(["mul-op0", "mul,x-op0"]):
            dump.call(make_node(long + last, "mul"), outputs=[torch.tensor([float(number)])])
        dump.call(make_node("Default/short-op0", "mul"), outputs=[torch.ones(1)])
    lines = (dump.directory() / "mapping.csv").read_text().splitlines()
    assert len(lines) == 2
    short, original = lines[0].split(",")
    assert re.fullmatch(r"[0-9a-f]{20}\.npy", short)
    assert original.startswith("mul.Default_a_quite_long") and original.endswith(".float32.npy")
    assert len(original.encode()) > 255
    assert dump.load(short)[0] == 0
    assert lines[1].split(",", 1)[1].startswith('"')
    assert len(npy_names(dump.directory())) == 3
