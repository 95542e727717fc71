"""A mask made by multiplying with -Inf: where it should be 0 it is 0 * -Inf.

kind: inside a module
expect: op=mul step=0
"""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 9)

    def forward(self, tokens):
        length = tokens.shape[1]
        future = torch.triu(torch.ones(length, length), 1)
        mask = future * float("-inf")  # origin
        x = self.embed(tokens)
        mixed, _ = self.mix(x, x, x, attn_mask=mask)
        return self.out(x + mixed)


torch.manual_seed(0)
model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    tokens = torch.randint(0, 9, (2, 6))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
