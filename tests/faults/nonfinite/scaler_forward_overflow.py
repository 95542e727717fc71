"""float16 autocast with a gradient scaler, which cannot help: the forward itself overflows.

kind: GradScaler with a forward overflow
expect: op=mm step=2
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 16), nn.Linear(8, 16)

    def forward(self, x):
        query, key = self.query(x), self.key(x)
        scores = query @ key.T  # origin
        return (scores / 4).softmax(-1)


torch.manual_seed(0)
model = Attention()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for step in range(4):
    x = torch.randn(6, 8) * (1 if step != 2 else 400)
    with torch.autocast("cpu", torch.float16):
        weights = model(x)
        loss = -weights.float().diagonal().clamp(min=1e-6).log().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item())
