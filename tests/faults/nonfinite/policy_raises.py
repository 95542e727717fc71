"""A policy gradient: the script raises, because its distribution refuses NaN, far from the cause.

kind: script that raises
expect: op=div step=2 exit=1
"""

import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, seen):
        scaled = (seen - seen.mean()) / seen.std()  # origin
        return self.head(self.body(scaled).tanh())


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(4):
    seen = torch.randn(5, 4) if step != 2 else torch.ones(5, 4)
    choice = Categorical(logits=policy(seen))
    action = choice.sample()
    reward = (action == 1).float()
    loss = -(choice.log_prob(action) * (reward - reward.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
