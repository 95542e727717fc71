"""What the blocks of the page take as given."""

from model import Net

model = Net()
