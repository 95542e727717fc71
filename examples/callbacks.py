"""Train the small AlexNet with callbacks, metrics and a checkpoint of its best epoch.

python examples/callbacks.py
opscope run examples/callbacks.py
"""

import argparse

import torch
from alexnet import AlexNet, pictures
from torch import nn
from torch.utils.data import DataLoader

from opscope.train import (
    CheckpointConfig,
    EarlyStopping,
    LossMonitor,
    Model,
    ModelCheckpoint,
    TimeMonitor,
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--checkpoints", default="checkpoints")
    args = parser.parse_args()
    torch.manual_seed(0)
    net = AlexNet()
    model = Model(
        net,
        nn.CrossEntropyLoss(),
        torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9),
        metrics=["accuracy", "loss", "F1"],
    )
    training = DataLoader(pictures(args.pictures), batch_size=16, shuffle=True)
    validation = DataLoader(pictures(20), batch_size=10)
    best = CheckpointConfig(save_checkpoint_steps=0, monitor="accuracy")
    model.fit(
        args.epochs,
        training,
        validation,
        callbacks=[
            LossMonitor(per_print_times=2),
            TimeMonitor(),
            ModelCheckpoint("alexnet", args.checkpoints, best),
            EarlyStopping("eval_loss", patience=2, verbose=True),
        ],
    )
    print(model.eval(validation))


if __name__ == "__main__":
    main()
