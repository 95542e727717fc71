"""An LSTM cell by hand with an exponential input gate and no stabiliser.

kind: recurrent network by hand
expect: op=exp step=2
"""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.gates = nn.Linear(inputs + width, 4 * width)

    def forward(self, x, hidden, cell):
        enter, forget, new, out = self.gates(torch.cat([x, hidden], 1)).chunk(4, 1)
        opened = enter.exp()  # origin
        cell = forget.sigmoid() * cell + opened * new.tanh()
        return out.sigmoid() * cell.tanh(), cell


torch.manual_seed(0)
cell, head = Cell(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
for step, loudness in enumerate((1.0, 3.0, 900.0, 1.0)):
    series = torch.randn(7, 4, 3) * loudness
    hidden, memory = torch.zeros(4, 5), torch.zeros(4, 5)
    for x in series:
        hidden, memory = cell(x, hidden, memory)
    loss = (head(hidden).squeeze(1) - series[:, :, 0].sign().mean(0)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
