"""A float16 model without loss scaling: the loss is finite, the square's slope is not.

kind: float16 overflow
expect: op=mul step=1
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4).half()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step in range(4):
    x = torch.randn(8, 4).half()
    far = 300.0 if step == 1 else 1.0
    weight = 240.0 if step == 1 else 1.0
    error = model(x) - far
    small = error / 256
    loss = (small * small * weight * 256).sum() / 32  # origin
    optimizer.zero_grad()
    loss.backward(torch.tensor(8.0 if step == 1 else 1.0).half())
    optimizer.step()
    print(step, loss.item(), model.weight.norm().item())
