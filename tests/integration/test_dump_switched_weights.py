"""A dump of a network that uses its weights in another order from time to time."""

from __future__ import annotations

import torch
from test_dump_shared import dumping, rows
from torch import nn

FIRST = [0, 0, 0, 1, 1, 0, 0, 1]


class Switching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.eye(3), torch.ones(3, 3)])

    def forward(self, x: torch.Tensor, first: int) -> torch.Tensor:
        one, other = self.weights[first], self.weights[1 - first]
        return (x @ one) @ other


def test_each_step_has_the_rows_of_its_weights_in_their_order(tmp_path) -> None:
    given = {"saved_data": "statistic", "dump_mode": 1, "kernels": ["mm"], "net_name": "Net"}
    with dumping(tmp_path, **given) as dump:
        model = Switching()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for first in FIRST:
            optimizer.zero_grad()
            model(torch.ones(2, 3), first).sum().backward()
            optimizer.step()
    found = []
    for step in range(len(FIRST)):
        table = rows(dump / "Net" / "0" / str(step) / "statistic.csv")
        found.append([row["Op Name"] for row in table if row["Op Type"] == "Parameter"])
    assert found == [[f"weights.{first}", f"weights.{1 - first}"] for first in FIRST]
