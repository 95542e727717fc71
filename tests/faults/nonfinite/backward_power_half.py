"""x**0.5 at 0: the derivative is 0 to the power of -0.5.

kind: backward only
expect: op=pow step=3
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 5)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(5):
    x = torch.randn(4, 5)
    energy = model(x).square()
    if step == 3:
        energy = energy * torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
    loudness = energy**0.5  # origin
    loss = (loudness - x.abs()).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model.weight.norm().item())
