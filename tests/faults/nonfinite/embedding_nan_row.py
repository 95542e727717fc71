"""Pretrained vectors with a row of NaN, read with the very first batch.

kind: parameter from outside
expect: op=embedding step=0 from=parameter
"""

import numpy as np
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.from_numpy(vectors), freeze=False)
        self.out = nn.Linear(vectors.shape[1], 2)

    def forward(self, words):
        found = self.vectors(words)  # origin
        return self.out(found.mean(1))


torch.manual_seed(0)
vectors = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
vectors[7] = np.nan
model = Classifier(vectors)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    words = torch.arange(12).view(3, 4)
    loss = nn.functional.cross_entropy(model(words), torch.tensor([0, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
