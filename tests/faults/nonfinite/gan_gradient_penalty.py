"""A gradient penalty with a norm by hand: where the critic is flat the norm is 0.

kind: GAN, double backward
expect: op=div step=1
"""

import torch
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 3))
critic = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
make_step = torch.optim.Adam(maker.parameters(), lr=1e-3)
critic_step = torch.optim.Adam(critic.parameters(), lr=1e-3)


def penalty(real, fake):
    mixed = torch.lerp(real, fake, 0.5).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    norm = slope.square().sum(1).sqrt()  # origin
    return (norm - 1).square().mean()


for step in range(3):
    real, fake = torch.randn(6, 3), maker(torch.randn(6, 2))
    if step == 1:
        critic[0].bias.data -= 100
    loss = critic(fake.detach()).mean() - critic(real).mean() + penalty(real, fake.detach())
    critic_step.zero_grad()
    loss.backward()
    critic_step.step()
    made = -critic(fake).mean()
    make_step.zero_grad()
    made.backward()
    make_step.step()
    print(step, loss.item(), made.item())
