"""Cosine similarity by hand; an item that has no words has a zero vector.

kind: inside a module
expect: op=div step=2
"""

import torch
from torch import nn


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(20, 6, mode="sum", padding_idx=0)

    def forward(self, left, right):
        left, right = self.words(left), self.words(right)
        left = left / left.norm(dim=-1, keepdim=True)
        right = right / right.norm(dim=-1, keepdim=True)  # origin
        return (left * right).sum(-1)


torch.manual_seed(0)
model = Cosine()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
for step in range(4):
    left, right = torch.randint(1, 20, (2, 5, 4))
    if step == 2:
        right[3] = 0
    loss = (1 - model(left, right)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
