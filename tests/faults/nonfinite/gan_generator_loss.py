"""A GAN whose discriminator is too sure of itself: log(1 - D(G(z))).

kind: GAN
expect: op=log step=3
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-2)
for_judge = torch.optim.Adam(judge.parameters(), lr=1e-2)


def generator_loss(fake):
    fooled = judge(fake)
    return torch.log(1 - fooled).mean()  # origin


for step in range(5):
    real = torch.randn(8, 4) + 1
    fake = generator(torch.randn(8, 2))
    judged = torch.cat([judge(real), judge(fake.detach())])
    loss = F.binary_cross_entropy(judged, torch.cat([torch.ones(8, 1), torch.zeros(8, 1)]))
    for_judge.zero_grad()
    loss.backward()
    for_judge.step()
    if step == 3:
        judge[2].bias.data += 60
    made = generator_loss(fake)
    for_generator.zero_grad()
    made.backward()
    for_generator.step()
    print(step, loss.item(), made.item())
