"""The same in one fused operator, at step 2: with betas of 0 the past is forgotten at once.

kind: optimizer
expect: op=_fused_adam_ step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.0, 0.0), eps=0.0, fused=True)


def train(x, target):
    loss = (model(x) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # origin
    return loss.item()


with torch.no_grad():
    model[0].bias.fill_(5.0)
for step in range(4):
    x = torch.rand(8, 4)
    if step == 2:
        x[:, 1] = 0.0
    print(step, train(x, torch.randn(8, 2)), model[0].weight.norm().item())
