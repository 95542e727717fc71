"""What the blocks of the page take as given."""

from model import make_model

import opscope

model = make_model()
opscope.start(run_dir="watched")
