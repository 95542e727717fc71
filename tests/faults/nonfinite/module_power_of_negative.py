"""A learned gamma correction: a negative pixel to a power that is no whole number.

kind: inside a module
expect: op=pow step=2
"""

import torch
from torch import nn


class Gamma(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor(1.1))

    def forward(self, pixels):
        return pixels**self.gamma  # origin


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(), Gamma(), nn.Flatten(), nn.Linear(72, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(5):
    pictures, target = torch.rand(4, 1, 8, 8), torch.randint(0, 2, (4,))
    if step == 2:
        model[1] = nn.Identity()
    loss = nn.functional.cross_entropy(model(pictures), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
