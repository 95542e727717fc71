"""A schedule of the user's own that is 0/0 at its end, in NumPy, so that nothing raises.

kind: optimizer
expect: op=_foreach_add_ step=3
"""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)


def rate(step, total=3):
    left = np.float64(total - step)
    with np.errstate(all="ignore"):
        return 0.1 * left / np.abs(left)


for step in range(5):
    x = torch.randn(8, 4)
    loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.param_groups[0]["lr"] = float(rate(step))
    optimizer.step()  # origin
    print(step, loss.item())
