"""A masked mean; one batch is nothing but padding, so that it divides by 0.

kind: loss expression
expect: op=div step=3
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
lengths = [[4, 6], [2, 1], [5, 5], [0, 0], [3, 6], [6, 6]]


def masked_mean(values, mask):
    total = (values * mask).sum()
    return total / mask.sum()  # origin


for step, length in enumerate(lengths):
    tokens = torch.randint(0, 11, (2, 7))
    mask = (torch.arange(6) < torch.tensor(length)[:, None]).float()
    logits = model(tokens[:, :-1])
    each = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    loss = masked_mean(each.view(2, 6), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
