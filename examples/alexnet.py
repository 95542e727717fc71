"""Train a small AlexNet on made-up pictures.

python examples/alexnet.py
opscope run --dump examples/data_dump.json examples/alexnet.py
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AlexNet(nn.Module):
    """AlexNet with an eighth of its channels, for pictures of 99 x 99."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, kernel_size=11, stride=4)
        self.conv2 = nn.Conv2d(12, 32, kernel_size=5, padding=2)
        self.conv3 = nn.Conv2d(32, 48, kernel_size=3, padding=1)
        self.conv4 = nn.Conv2d(48, 48, kernel_size=3, padding=1)
        self.conv5 = nn.Conv2d(48, 32, kernel_size=3, padding=1)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=3, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(2 * 2 * 32, 512)
        self.fc2 = nn.Linear(512, 512)
        self.fc3 = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.conv3(x)
        x = self.relu(x)
        x = self.relu(self.conv4(x))
        x = self.max_pool2d(self.relu(self.conv5(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def pictures(count: int) -> TensorDataset:
    """Noise with a bright square whose place is the class."""
    labels = torch.arange(count) % 10
    images = 0.1 * torch.randn(count, 3, 99, 99)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = 30 * (label // 4), 24 * (label % 4)
        image[:, row : row + 20, column : column + 20] += 1
    return TensorDataset(images, labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = AlexNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    loader = DataLoader(pictures(args.steps * args.batch), batch_size=args.batch)
    for step, (images, labels) in enumerate(loader):
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
