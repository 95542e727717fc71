"""Adam with eps=0: a weight whose gradient has always been 0 becomes 0 / 0.

kind: optimizer
expect: op=addcdiv_ step=0
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=0.0)
for step in range(3):
    words, target = torch.randint(0, 9, (4, 3)), torch.randint(0, 2, (4,))
    loss = nn.functional.cross_entropy(model(words), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # origin
    print(step, loss.item(), model[0].weight.norm().item())
