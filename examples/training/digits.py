#!/usr/bin/env python3
"""The guide's MNIST program (P1) on hand-written digits, on hpu and in CPU eager side by side.

`train` is the guide's function; around it is the rest of such a program. The images are 1,797 real
ones of scikit-learn, 8 x 8. The program writes loss.svg, which shows both losses over the steps,
and a checkpoint that was saved on hpu and is resumed on the CPU.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
import torch.nn.functional as F
from loss_picture import write_picture
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import habana_frameworks.torch.core as htcore  # noqa: F401  (brings the hpu device)
from habana_frameworks.torch.dynamo import report


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    if args.compile:
        model = torch.compile(model, backend="hpu_backend")

    def train_function(data, target):
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        return loss

    training_step = 0
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        loss = train_function(data, target)
        args.losses.append(loss.detach())
        args.bar.update()
        if batch_idx % args.log_interval == 0:
            args.bar.write(
                f"Train Epoch: {epoch} [{batch_idx * len(data)}/"
                f"{len(train_loader.dataset) / args.world_size} "
                f"({100.0 * batch_idx / len(train_loader):.0f}%)]\tLoss: {loss.item():.6f}"
            )
            if batch_idx != 0 and args.dry_run:
                break
        if args.max_training_step != 0:
            training_step += 1
            if training_step == args.max_training_step:
                break


def loader(images: torch.Tensor, labels: torch.Tensor) -> DataLoader:
    """Batches in an order that is the same for every device."""
    order = torch.Generator().manual_seed(1)
    return DataLoader(TensorDataset(images, labels), 64, shuffle=True, generator=order)


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = model(images).argmax(1) == labels
    return right.float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--dry-run", action="store_true", help="two lines of log, no more")
    parser.add_argument("--max-training-step", type=int, default=0, help="0: whole epochs")
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(), help="for loss.svg and digits.pt")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    held_out = (images[1500:], labels[1500:])
    torch.manual_seed(0)
    fresh = Net()
    losses: dict[str, list[float]] = {}
    models: dict[str, nn.Module] = {}
    for device in ("hpu", "cpu"):
        model = models[device] = copy.deepcopy(fresh).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        batches = loader(images[:1500], labels[:1500])
        args.compile, args.losses = device == "hpu", []
        with tqdm(total=args.epochs * len(batches), desc=device, disable=None) as args.bar:
            for epoch in range(1, args.epochs + 1):
                train(args, model, torch.device(device), batches, optimizer, epoch)
        losses[device] = [loss.item() for loss in args.losses]
        found = accuracy(model, *(t.to(device) for t in held_out))
        print(f"{device}: {found:.1%} of {len(held_out[1])} held-out images are recognised")

    print(report())
    write_picture(args.folder / "loss.svg", losses)
    torch.save(models["hpu"].state_dict(), args.folder / "digits.pt")
    resumed = Net()
    resumed.load_state_dict(torch.load(args.folder / "digits.pt", map_location="cpu"))
    same = (resumed(held_out[0]) - models["hpu"](held_out[0].to("hpu")).cpu()).abs().max().item()
    print(f"saved on hpu, loaded on the CPU: results differ by {same:.1e} at most")
    print(f"{args.folder / 'loss.svg'} shows both losses")


if __name__ == "__main__":
    main()
