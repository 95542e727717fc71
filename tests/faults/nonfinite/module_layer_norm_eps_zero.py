"""torch's own layer normalisation with eps=0 over an all-zero row of padding.

kind: inside a module
expect: op=native_layer_norm step=2
"""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8, eps=0.0)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.norm(x)).mean(1)  # origin


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    inputs, target = torch.randn(4, 5, 8), torch.randint(0, 3, (4,))
    if step >= 2:
        inputs[1, 3:] = 0.0
    loss = nn.functional.cross_entropy(model(inputs), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
