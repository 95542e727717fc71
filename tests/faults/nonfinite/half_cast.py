"""Features cast to float16 to save memory; one of them is a price in cents.

kind: float16 overflow
expect: op=_to_copy step=3
"""

import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(3, 8), nn.Linear(8, 1).half()
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=1e-9)
prices = [1200.0, 5.0, 900.0, 250_000.0, 70.0]

for step, price in enumerate(prices):
    rows = torch.randn(4, 3) * price
    hidden = encoder(rows)
    small = hidden.to(torch.float16)  # origin
    loss = head(small).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
