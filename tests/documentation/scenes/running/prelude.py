"""What the blocks of the page take as given."""

from torch import nn, optim, randn


class Net(nn.Module):
    """A body and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        """Two numbers."""
        return self.head(self.body(x).relu())


model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)


def train() -> None:
    """Two steps."""
    for _ in range(2):
        optimizer.zero_grad()
        model(randn(8, 4)).square().mean().backward()
        optimizer.step()
