"""Attention over padding: a sequence of length 0 leaves a row of nothing but -Inf.

kind: inside a module
expect: op=_softmax step=2
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, padding):
        scores = self.query(x) @ self.key(x).mT / x.shape[-1] ** 0.5
        scores = scores.masked_fill(padding[:, None, :], float("-inf"))
        weights = scores.softmax(-1)  # origin
        return weights @ self.value(x)


torch.manual_seed(0)
model, head = Attention(8), nn.Linear(8, 2)
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
for step, lengths in enumerate(([5, 3], [1, 4], [0, 2], [5, 5])):
    padding = torch.arange(5) >= torch.tensor(lengths)[:, None]
    mixed = model(torch.randn(2, 5, 8), padding)
    loss = nn.functional.cross_entropy(head(mixed.mean(1)), torch.tensor([0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
