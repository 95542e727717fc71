"""The angle between a vector and itself: 0, and its slope is -1 / sqrt(1 - 1).

kind: backward only
expect: op=rsqrt step=1
"""

import torch
from torch import nn


class Angle(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Linear(3, 3)

    def forward(self, one, other):
        cosine = torch.cosine_similarity(self.turn(one), self.turn(other))
        return torch.acos(cosine.clamp(-1, 1))  # origin


torch.manual_seed(0)
model = Angle()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    one, other = torch.randn(2, 8, 3)
    if step == 1:
        other = one.clone()
    loss = (model(one, other) - 1.5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model.turn.weight.norm().item())
