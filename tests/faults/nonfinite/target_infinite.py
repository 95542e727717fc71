"""A target that is +Inf: the model never sees it, the loss does.

kind: bad batch at step k
expect: op=mse_loss step=3 from=batch
"""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
prices = np.random.default_rng(0).uniform(1, 2, size=(6, 5, 1)).astype(np.float32)
prices[3, 2] = np.inf

for step in range(6):
    guess = model(torch.randn(5, 3))
    loss = nn.functional.mse_loss(guess, torch.from_numpy(prices[step]))  # origin
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
