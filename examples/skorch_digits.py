# %% [markdown]
# # Foresight in skorch
#
# [skorch](https://skorch.readthedocs.io) wraps a PyTorch network as a scikit-learn estimator. Foresight is hooks on the
# layers of a network, so one line in a callback puts it on: the network, the optimizer and the pipeline stay as they
# are. Here both sides choose their step size in the same grid search.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn

from crossprop.torch import foresight

epochs, step_sizes, folds = 8, [0.01, 0.03, 0.1, 0.3, 1.0], 3
x, y = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split((x / 16).astype(np.float32), y.astype(np.int64), random_state=0)

# %% [markdown]
# ## One callback
#
# skorch makes a new network whenever it is fitted, and tells its callbacks when training begins.


# %%
class LookAhead(Callback):
    def __init__(self, ahead=1.0, horizon=1000.0):
        self.ahead, self.horizon = ahead, horizon

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.handle = foresight(net.module_, self.ahead, self.horizon)

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.handle.remove()


def network():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def search(callbacks):
    torch.manual_seed(0)
    estimator = NeuralNetClassifier(
        network,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        max_epochs=epochs,
        batch_size=16,
        train_split=None,
        verbose=0,
        callbacks=callbacks,
    )
    return GridSearchCV(estimator, {"lr": step_sizes}, cv=folds).fit(x, y)


# %% [markdown]
# ## With and without

# %%
found = {"backprop": search([]), "foresight": search([("look ahead", LookAhead(ahead=1.0, horizon=100))])}
for name, each in found.items():
    print(f"{name}: step size {each.best_params_['lr']}, {100 * each.score(x_test, y_test):.1f}% of the test set")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, each in found.items():
    axes.semilogx(step_sizes, each.cv_results_["mean_test_score"], "o-", label=name)
axes.set(xlabel="step size", ylabel=f"accuracy, {folds} folds")
axes.legend()
plt.show()
