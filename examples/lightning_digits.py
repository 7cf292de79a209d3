# %% [markdown]
# # Foresight in Lightning
#
# [Lightning](https://lightning.ai) runs the training loop of a PyTorch network. Foresight is hooks on its layers and
# hears every step of its optimizer, so it goes on in one line, before or after Lightning takes the network; its memory
# goes into Lightning's checkpoints by two more.

# %%
import logging
import warnings

import lightning
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from crossprop.torch import foresight

epochs = 6
digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
data = TensorDataset(x, torch.tensor(digits.target))

# %% [markdown]
# ## A module like any other


# %%
class Digits(lightning.LightningModule):
    def __init__(self, ahead):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.foresight = foresight(self.network, ahead=ahead, horizon=100)  # the line
        self.losses = []

    def training_step(self, batch):
        x, y = batch
        loss = nn.functional.cross_entropy(self.network(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["foresight"] = self.foresight.state_dict()

    def on_load_checkpoint(self, checkpoint):
        self.foresight.load_state_dict(checkpoint["foresight"])


# %% [markdown]
# ## With and without, from the same weights and in the same order

# %%
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
curves = {}
for name, ahead in (("backprop", 0.0), ("foresight", 2.0)):
    torch.manual_seed(0)
    module = Digits(ahead)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are no workers, no logger and no validation
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_checkpointing=False,
            enable_model_summary=False,
        )
        trainer.fit(module, DataLoader(data, batch_size=32, shuffle=True))
    curves[name] = module.losses
    print(f"{name}: mean loss of the last fifty steps {sum(module.losses[-50:]) / 50:.4f}")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, losses in curves.items():
    smooth = torch.tensor(losses).unfold(0, 20, 10).mean(dim=1)
    axes.plot(range(20, 20 + 10 * len(smooth), 10), smooth, label=name)
axes.set(xlabel="step", ylabel="loss, mean of twenty steps")
axes.legend()
plt.show()
