"""Four steps; in the last one the loss is infinite."""

import torch
from model import make_model

torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(4, 8)).square().mean()
    loss = loss if step < 3 else loss / (loss * 0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
