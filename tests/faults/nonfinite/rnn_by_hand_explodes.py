"""A linear recurrence by hand whose state doubles with every element of a long sequence.

kind: recurrent network by hand
expect: op=mm step=1
"""

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.enter = nn.Linear(2, width)
        self.turn = nn.Parameter(2 * torch.eye(width))
        self.leave = nn.Linear(width, 1)

    def forward(self, x):
        state = torch.zeros(x.shape[0], len(self.turn))
        for part in x.unbind(1):
            carried = state @ self.turn  # origin
            state = carried + self.enter(part)
        return self.leave(state)


torch.manual_seed(0)
model = Recurrent(4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-40)
for step, length in enumerate((20, 160, 20)):
    x = torch.randn(2, length, 2)
    out = model(x)
    loss = out.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
