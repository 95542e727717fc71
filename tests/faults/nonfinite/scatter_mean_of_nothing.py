"""A graph network that takes the mean over the edges of every node; one node has none.

kind: inside a module
expect: op=div step=2
"""

import torch
from torch import nn


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.send = nn.Linear(4, 4)

    def forward(self, nodes, source, target):
        messages = self.send(nodes)[source]
        total = torch.zeros_like(nodes).index_add(0, target, messages)
        degree = torch.zeros(len(nodes)).index_add(0, target, torch.ones(len(target)))
        return nodes + total / degree[:, None]  # origin


torch.manual_seed(0)
layer, head = Mean(), nn.Linear(4, 3)
optimizer = torch.optim.AdamW([*layer.parameters(), *head.parameters()], lr=1e-2)
for step in range(4):
    source, target = torch.randint(0, 6, (12,)), torch.arange(12) % 6
    if step == 2:
        target[target == 5] = 0
    out = head(layer(torch.randn(6, 4), source, target))
    loss = nn.functional.cross_entropy(out, torch.arange(6) % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
