"""An angular margin with a learned sharpness: a cosine a little more than 1 has no angle.

kind: inside a module
expect: op=acos step=1
"""

import torch
import torch.nn.functional as F
from torch import nn


class Margin(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, width))
        self.sharpness = nn.Parameter(torch.tensor(1.02))

    def forward(self, features, target):
        cosine = self.sharpness * F.normalize(features) @ F.normalize(self.centres).T
        angle = torch.acos(cosine)  # origin
        wide = angle + 0.2 * F.one_hot(target, len(self.centres))
        return F.cross_entropy(16 * torch.cos(wide), target)


torch.manual_seed(0)
body, margin = nn.Linear(5, 64), Margin(64, 4)
optimizer = torch.optim.SGD([*body.parameters(), *margin.parameters()], lr=0.01)
for step in range(4):
    features = body(torch.randn(8, 5))
    if step == 1:
        features = margin.centres.detach().repeat(2, 1)
    loss = margin(features, torch.arange(8) % 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
