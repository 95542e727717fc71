"""A bad sample that comes out of a DataLoader's worker process.

kind: bad batch at step k
expect: op=convolution step=1 from=batch
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(1, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        x = self.conv(x)  # origin
        return self.head(x.relu().mean(-1))


if __name__ == "__main__":
    torch.manual_seed(0)
    signals = torch.randn(12, 1, 10)
    signals[5, 0, 3] = float("inf")
    loader = DataLoader(TensorDataset(signals, torch.arange(12) % 2), 4, num_workers=1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
