"""Distillation: a divergence by hand, and a student that gives one class no chance at all.

kind: loss expression
expect: op=div step=0
"""

import torch
from torch import nn

torch.manual_seed(0)
teacher, student = nn.Linear(6, 4), nn.Linear(6, 4)
student.load_state_dict({"weight": torch.zeros(4, 6), "bias": torch.tensor([0.0, 0.0, 0.0, -200])})
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)

for step in range(4):
    inputs = torch.randn(8, 6)
    with torch.no_grad():
        p = teacher(inputs).softmax(-1)
    q = student(inputs).softmax(-1)
    ratio = p / q  # origin
    loss = (p * ratio.log()).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
