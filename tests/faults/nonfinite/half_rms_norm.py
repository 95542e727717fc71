"""RMS normalisation by hand in float16: the square overflows before the mean is taken.

kind: float16 overflow
expect: op=pow step=1
"""

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        power = x.pow(2).mean(-1, keepdim=True)  # origin
        return x * (torch.sqrt(power) / (power + 1e-5)) * self.weight


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), RMSNorm(32), nn.Linear(32, 2)).half()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step, size in enumerate((1.0, 700.0, 1.0, 1.0)):
    x = (torch.randn(4, 8) * size).half()
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
