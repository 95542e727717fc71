"""A branch that `where` does not take still has a backward: 0 * Inf.

kind: backward only
expect: op=div step=1
"""

import torch
from torch import nn


class SafeRoot(nn.Module):
    def forward(self, x):
        x = x * (x > 0)
        root = x.sqrt()  # origin
        return torch.where(x > 0, root, torch.zeros_like(x))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 16), SafeRoot(), nn.Linear(16, 1))
with torch.no_grad():
    model[0].bias.fill_(6.0)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(8, 3) if step == 0 else 8 * torch.randn(8, 3)
    loss = (model(x).squeeze(1) - x.norm(dim=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model[0].weight.norm().item())
