"""A model that nobody here has seen: experts that a gate mixes, over a recurrent layer.

With `--slip` the distance between the states is a root of what may be 0, as it is for the first
two words of a sentence that stutters: the gradient of that is not finite.
"""

import argparse

import torch
from torch import nn


class Mixture(nn.Module):
    """Experts, and a gate that says how much each of them counts."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Mix."""
        weights = self.gate(states).softmax(-1)
        answers = torch.stack([expert(states).tanh() for expert in self.experts], -1)
        return (answers * weights[..., None, :]).sum(-1)


class Reader(nn.Module):
    """Words in, the next word out."""

    def __init__(self, words: int = 50, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.memory = nn.GRUCell(width, width)
        self.mixture = Mixture(width, experts=3)
        self.decide = nn.Linear(width, words)

    def forward(self, sentences: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of the next word, and the embedded words."""
        embedded = self.embedding(sentences)
        state = embedded.new_zeros(len(sentences), embedded.shape[-1])
        for word in embedded.unbind(1):
            state = self.memory(word, state)
        return self.decide(self.mixture(state)), embedded


def spread(embedded: torch.Tensor) -> torch.Tensor:
    """How far words that follow each other are apart."""
    steps = embedded[:, 1:] - embedded[:, :-1]
    return steps.square().sum(-1).sqrt().mean()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--slip", type=int, default=-1)
args = parser.parse_args()
torch.manual_seed(3)
model = Reader()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(args.steps):
    sentences = torch.stack([torch.randperm(49)[:7] + 1 for _ in range(8)])
    if step == args.slip:
        sentences[2, :3] = 7  # somebody stutters
    scores, embedded = model(sentences)
    loss = nn.functional.cross_entropy(scores, sentences[:, -1]) + 0.01 / spread(embedded)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.3f}")
