from __future__ import annotations

import pytest
import torch
from made_dump import MadeDump, NewDump, make_node

from opscope.dump.format.execution_order import OperatorOrder
from opscope.events import Phase

HEADER = "NodeExecutionOrder-FullNameWithScope"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["abc"], "abc"),
        (["abc", "abc"], "abc"),
        (["abc", "abxc"], "abxc"),
        (["abc", "xabc"], "xabc"),
        (["abc", "abcxy"], "abcxy"),
        (["abc", "axyc"], "axybc"),
        (["abc", "cxa"], "abcx"),
        (["ab", "xy"], "xyab"),
        (["aba", "bc"], "abc"),
        (["abc", "axbyc", "azc"], "azxbyc"),
    ],
)
def test_new_operators_go_after_their_predecessor(steps: list[str], expected: str) -> None:
    order = OperatorOrder()
    for step in steps:
        order.add(list(step))
    assert "".join(order.names) == expected


def test_adding_tells_whether_anything_was_new() -> None:
    order = OperatorOrder()
    assert order.add(["a", "b"])
    assert not order.add(["b", "a"])
    assert order.add(["a", "c"])


def lines(dump: MadeDump, name: str) -> list[str]:
    return (dump.root / "execution_order" / name).read_text().splitlines()


def test_both_files(new_dump: NewDump, enable: bool) -> None:
    a, b, c = (make_node(f"Default/network-Net/{name}-op0", name) for name in "abc")
    with new_dump(enable, iteration="1|3-4", initial_iteration=1, input_output=2) as dump:
        for step in range(5):
            for node in [a, b] if step < 3 else [a, c, b]:
                dump.call(node, outputs=[torch.ones(1)])
            dump.end_step()
    assert lines(dump, "ms_execution_order_graph_0.csv") == [
        HEADER,
        *(node.name for node in (a, c, b)),
    ]
    assert lines(dump, "ms_global_execution_order_graph_0.csv") == ["1", "3", "4"]


def test_every_operator_is_listed_even_if_few_are_dumped(new_dump: NewDump) -> None:
    with new_dump(dump_mode=1, kernels=["a"]) as dump:
        for name in "ab":
            dump.call(make_node(f"D/{name}-op0", name), outputs=[torch.ones(1)])
        dump.end_step()
    assert lines(dump, "ms_execution_order_graph_0.csv") == [HEADER, "D/a-op0", "D/b-op0"]


def test_graphs_that_are_not_dumped_have_no_file(new_dump: NewDump) -> None:
    with new_dump() as dump:
        dump.call(make_node(), outputs=[torch.ones(1)])
        dump.call(make_node("D/v-op0", graph=1, phase=Phase.EVAL), outputs=[torch.ones(1)])
        dump.end_step()
    names = sorted(file.name for file in (dump.root / "execution_order").iterdir())
    assert names == ["ms_execution_order_graph_0.csv", "ms_global_execution_order_graph_0.csv"]


def test_a_file_is_rewritten_only_when_the_order_is_new(new_dump: NewDump, enable: bool) -> None:
    with new_dump(enable, iteration="0-2") as dump:
        first, second = make_node("D/a-op0"), make_node("D/b-op0")
        inodes = []
        for nodes in ([first], [first], [first, second]):
            for node in nodes:
                dump.call(node, outputs=[torch.ones(1)])
            dump.end_step()
            if enable:
                file = dump.root / "execution_order/ms_execution_order_graph_0.csv"
                inodes.append(file.stat().st_ino)
    assert lines(dump, "ms_execution_order_graph_0.csv") == [HEADER, "D/a-op0", "D/b-op0"]
    if enable:
        assert inodes[0] == inodes[1] != inodes[2]


def test_long_orders_arrive_whole(new_dump: NewDump, enable: bool) -> None:
    scope = "Default/network-Net/" + "block-Block/" * 20
    nodes = [make_node(f"{scope}a-op{number}", "a") for number in range(3000)]
    with new_dump(enable, dump_mode=1, kernels=["nothing"]) as dump:
        for node in nodes:
            dump.call(node, outputs=[torch.ones(1)])
        dump.end_step()
    assert lines(dump, "ms_execution_order_graph_0.csv") == [HEADER, *(n.name for n in nodes)]


def test_odd_names_stay_one_field(new_dump: NewDump) -> None:
    with new_dump() as dump:
        dump.call(make_node('D/a,"b"-op0'), outputs=[torch.ones(1)])
        dump.end_step()
    assert lines(dump, "ms_execution_order_graph_0.csv")[1] == '"D/a,""b""-op0"'
