"""A layer is frozen after two steps, but its gradients stay 0 instead of None: it still decays.

expect: FC
"""

import sys

import torch
from torch import nn

fixed = "--fixed" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
rule = torch.randn(6, 3)
for step in range(30):
    if step == 2:
        model[0].requires_grad_(False)
        if fixed:
            optimizer = torch.optim.AdamW(model[2].parameters(), lr=5e-3, weight_decay=0.1)
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
