"""Survival odds as a running product over a long sequence.

kind: inside a module
expect: op=cumprod step=0
"""

import torch
from torch import nn


class Survival(nn.Module):
    def __init__(self):
        super().__init__()
        self.hazard = nn.GRU(3, 8, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        hidden, _ = self.hazard(x)
        odds = 2.5 + self.out(hidden).squeeze(-1)
        return torch.cumprod(odds, dim=1)  # origin


torch.manual_seed(0)
model = Survival()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(2, 120, 3)
    loss = torch.log1p(model(x)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
