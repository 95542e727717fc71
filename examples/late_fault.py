"""An AlexNet that trains well until a black picture comes along: in step 24 all turns to NaN.

opscope run examples/late_fault.py
"""

import argparse

import torch
from alexnet import AlexNet, pictures
from torch import nn
from torch.utils.data import DataLoader

BATCH = 16


class Classifier(nn.Module):
    """The AlexNet on pictures that are brought to the same brightness first."""

    def __init__(self) -> None:
        super().__init__()
        self.features = AlexNet()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        spread, mean = torch.std_mean(images, dim=(1, 2, 3), keepdim=True)
        return self.features((images - mean) / spread)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--black", type=int, default=24, help="the step of the black picture")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = pictures(args.steps * BATCH)
    data.tensors[0][args.black * BATCH + 5] = 0  # what a broken camera takes
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    for step, (images, labels) in enumerate(DataLoader(data, batch_size=BATCH)):
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
