"""A likelihood by hand whose probabilities come out of a ReLU and can be exactly 0.

kind: loss expression
expect: op=log step=2
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.randn(6, 5, 4)
classes = torch.randint(0, 3, (6, 5))

for step in range(6):
    scores = model(data[step]).relu() + (0.1 if step != 2 else 0.0)
    chances = scores / (scores.sum(1, keepdim=True) + 0.1)
    if step == 2:
        chances = chances * (chances > 0.3)
    picked = chances.gather(1, classes[step, :, None])
    loss = -torch.log(picked).mean()  # origin
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
