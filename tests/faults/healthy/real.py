"""Healthy programs of packages as people use them, small, on synthetic data.

`real.py FOLDER NAME…` trains each plainly and under opscope with each set of watchpoints
(FOLDER/the set/its name), and prints a digest of what was learned for each.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 110
"""A loss that does not fall is told of after 100."""
SETS = ("recommended", "thorough", "everything")
GPT2 = {"vocab_size": 99, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
Train = Callable[[], nn.Module]
_KEPT: list[object] = []
"""Declarations last as long as what made them."""


def fit(model: nn.Module, loss_of: Callable[[], Tensor], rate: float = 1e-3) -> nn.Module:
    """The loop everybody writes."""
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def words(*shape: int) -> Tensor:
    """Text of twelve of the 99 words, which is to be learned of it."""
    return torch.randint(5, 17, shape)


def bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = BertForMaskedLM(BertConfig(vocab_size=99, intermediate_size=64, **small))

    def loss_of() -> Tensor:
        ids = words(4, 16)
        labels = torch.where(torch.rand(4, 16) < 0.3, ids, -100)
        labels[:, 0] = ids[:, 0]
        mask = torch.ones(4, 16, dtype=torch.long)
        mask[1, 9:] = 0
        return model(input_ids=ids, attention_mask=mask, labels=labels).loss

    return fit(model, loss_of)


def gpt2_with_checkpointing() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    )
    model.gradient_checkpointing_enable()
    model.config.use_cache = False

    def loss_of() -> Tensor:
        ids = words(4, 16)
        return model(input_ids=ids, labels=ids).loss

    return fit(model, loss_of)


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=99, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)

    def loss_of() -> Tensor:
        ids = words(4, 12)
        return model(input_ids=ids, labels=ids[:, :6].clone()).loss

    return fit(model, loss_of)


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = ViTConfig(image_size=16, patch_size=4, intermediate_size=64, num_labels=3, **small)
    model = ViTForImageClassification(config)

    def loss_of() -> Tensor:
        x = torch.randn(8, 3, 16, 16)
        return model(pixel_values=x, labels=x.mean((2, 3)).argmax(1)).loss

    return fit(model, loss_of)


def whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, num_mel_bins=8,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, max_target_positions=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)

    def loss_of() -> Tensor:
        labels = words(4, 10)
        labels[:, 8:] = -100
        return model(input_features=torch.randn(4, 8, 40), labels=labels).loss

    return fit(model, loss_of)


def lora() -> nn.Module:
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    base = GPT2LMHeadModel(
        GPT2Config(vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    )
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))

    def loss_of() -> Tensor:
        ids = words(4, 16)
        return model(input_ids=ids, labels=ids).loss

    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    for _ in range(STEPS // 2):  # beside a random head that is frozen there is little to learn
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    return model


def declare_operators_of_torchvision() -> None:
    """Declare what torchvision names as it is imported, where its own library does not fit."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except RuntimeError:
        for name in [each for each in sys.modules if each.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        _KEPT.append(library)
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def timm_vit() -> nn.Module:
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=3)

    def loss_of() -> Tensor:
        x = torch.randn(4, 3, 32, 32)
        return F.cross_entropy(model(x), x.mean((2, 3)).argmax(1))

    return fit(model, loss_of)


def timm_resnet() -> nn.Module:
    import timm

    model = timm.create_model("resnet10t", num_classes=3)

    def loss_of() -> Tensor:
        x = torch.randn(4, 3, 32, 32)
        return F.cross_entropy(model(x), x.mean((2, 3)).argmax(1))

    return fit(model, loss_of)


def x_transformer() -> nn.Module:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=99, max_seq_len=32, attn_layers=layers)
    )
    return fit(model, lambda: model(torch.randint(0, 99, (4, 17))))


def lightning_with_swa() -> nn.Module:
    import lightning
    from lightning.pytorch.callbacks import StochasticWeightAveraging

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(
                *(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
            )

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    x = torch.randn(64, 8)
    data = torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    module = Module()
    _trainer([StochasticWeightAveraging(swa_lrs=0.05)]).fit(
        module, torch.utils.data.DataLoader(data, 16, shuffle=True)
    )
    return module


def lightning_gan() -> nn.Module:
    import lightning

    class Gan(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.made = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
            self.critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

        def training_step(self, batch: list[Tensor], index: int) -> None:
            makes, judges = self.optimizers()
            real, noise = batch[0], torch.randn(len(batch[0]), 4)
            ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            loss = F.binary_cross_entropy_with_logits
            self.toggle_optimizer(makes)
            makes.zero_grad()
            self.manual_backward(loss(self.critic(self.made(noise)), ones))
            makes.step()
            self.untoggle_optimizer(makes)
            self.toggle_optimizer(judges)
            judges.zero_grad()
            false = loss(self.critic(self.made(noise).detach()), zeros)
            self.manual_backward((loss(self.critic(real), ones) + false) / 2)
            judges.step()
            self.untoggle_optimizer(judges)

        def configure_optimizers(self) -> list[torch.optim.Optimizer]:
            return [torch.optim.Adam(m.parameters(), 2e-3) for m in (self.made, self.critic)]

    module = Gan()
    data = torch.utils.data.TensorDataset(torch.randn(64, 8))
    _trainer([]).fit(module, torch.utils.data.DataLoader(data, 16))
    return module


def _trainer(callbacks: list[object]) -> object:
    import lightning

    return lightning.Trainer(
        max_epochs=8, accelerator="cpu", callbacks=callbacks, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip


def accelerated() -> nn.Module:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    x = torch.randn(160, 8)
    data = torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    parts = model, torch.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer, loader = accelerator.prepare(*parts, torch.utils.data.DataLoader(data, 8))
    for _ in range(3):
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.cross_entropy(model(inputs), labels))
                optimizer.step()
                optimizer.zero_grad()  # it does so after updates only: first, it would lose half
    return model


def wgan_with_penalty() -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    makes, judges = (torch.optim.Adam(m.parameters(), 1e-3) for m in (made, critic))
    for _ in range(STEPS):
        for _ in range(2):
            real, false = torch.randn(16, 8), made(torch.randn(16, 4)).detach()
            mixed = torch.lerp(real, false, torch.rand(16, 1)).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            penalty = (slope.norm(2, dim=1) - 1).square().mean()
            judges.zero_grad()
            (critic(false).mean() - critic(real).mean() + 10 * penalty).backward()
            judges.step()
        makes.zero_grad()
        (-critic(made(torch.randn(16, 4))).mean()).backward()
        makes.step()
    return nn.ModuleList([made, critic])


def student_and_teacher() -> nn.Module:
    import copy

    student = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 16))
    teacher = copy.deepcopy(student).requires_grad_(False)
    center = torch.zeros(16)
    optimizer = torch.optim.AdamW(student.parameters(), 1e-3)
    for _ in range(STEPS):
        x = torch.randn(16, 8)
        with torch.no_grad():
            told = teacher(x + 0.1 * torch.randn_like(x))
            target = ((told - center) / 0.04).softmax(-1)
            center = 0.9 * center + 0.1 * told.mean(0)
        optimizer.zero_grad()
        said = (student(x + 0.1 * torch.randn_like(x)) / 0.1).log_softmax(-1)
        (-(target * said).sum(-1)).mean().backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.mul_(0.99).add_(fast, alpha=0.01)
    return student


def scaled_halves() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=4)
    for _ in range(STEPS):
        x = torch.randn(16, 8)
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return model


def speech_with_ctc() -> nn.Module:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0]).log_softmax(-1).transpose(0, 1)

    model, ctc = Net(), nn.CTCLoss(zero_infinity=True)

    def loss_of() -> Tensor:
        lengths = torch.tensor([12, 12, 5]), torch.tensor([4, 3, 5])
        return ctc(model(torch.randn(3, 12, 8)), torch.ones(3, 5, dtype=torch.long), *lengths)

    return fit(model, loss_of)


PROGRAMS: tuple[Train, ...] = (
    *(bert, gpt2_with_checkpointing, t5, vit, whisper, lora, x_transformer),
    *(timm_resnet, timm_vit),
    *(lightning_with_swa, lightning_gan, accelerated, wgan_with_penalty, student_and_teacher),
    *(scaled_halves, speech_with_ctc),
)


def digest(tensors: Iterable[Tensor]) -> str:
    """A text that is another one if any bit is."""
    found = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        found.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def main(folder: Path, names: list[str]) -> None:
    """Train plainly, then watched for more and more."""
    import opscope

    torch.set_num_threads(1)
    declare_operators_of_torchvision()
    for program in PROGRAMS:
        if program.__name__ not in names:
            continue
        for watch in ("plain", *SETS):
            torch.manual_seed(0)
            session: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
            if watch != "plain":
                run = folder / watch / program.__name__
                session = opscope.start(
                    run_dir=run, page=False, save_state=0, watch=watch, on_hit="log"
                )
            with session:
                learned = digest(program().parameters())
            print(program.__name__, watch, learned, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
