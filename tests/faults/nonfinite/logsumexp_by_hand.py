"""The forward algorithm of an HMM with a log-sum-exp by hand: very unlikely paths underflow.

kind: inside a module
expect: op=log step=1
"""

import torch
from torch import nn


class Hmm(nn.Module):
    def __init__(self, states):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(states, states))
        self.emit = nn.Linear(3, states)
        nn.init.constant_(self.emit.weight, -0.5)

    def forward(self, seen):
        score = torch.zeros(len(self.moves))
        for row in self.emit(seen):
            paths = score[:, None] + self.moves.log_softmax(-1) + row
            score = paths.exp().sum(0).log()  # origin
        return -score.max()


torch.manual_seed(0)
model = Hmm(4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    seen = torch.rand(6, 3) + (0 if step < 1 else 400)
    loss = model(seen)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
