"""A small classifier whose loss is infinite in step 6: `opscope run turns_nan.py` says why."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    chances = logits.softmax(-1)
    kept = chances * (chances > 0.05)  # forget what is unlikely
    picked = kept.gather(1, labels[:, None])
    return -picked.log().mean()


for step in range(10):
    x = torch.randn(16, 8) * (1 + step)
    labels = torch.randint(4, (16,))
    loss = cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
