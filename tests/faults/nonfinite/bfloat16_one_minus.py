"""bfloat16 has eight bits of mantissa: a chance of 0.999 is 1, and 1 - p is 0.

kind: bfloat16
expect: op=log step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)).bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(5):
    x = torch.randn(16, 6, dtype=torch.bfloat16)
    chance = torch.sigmoid(model(x) + (6.9 if step == 2 else 0.0))
    miss = torch.log(1 - chance)  # origin
    loss = -miss.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
