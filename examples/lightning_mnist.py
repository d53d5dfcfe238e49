#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Digits with Lightning: our loader where PyTorch's would be.

    pip install lightning                   needs torch 2.1 or later, so not Debian 12's
    examples/lightning_mnist.py
    examples/lightning_mnist.py --url s3://my-bucket/mnist/
    examples/lightning_mnist.py --devices 2        as many processes, one cache

(A file of one's own must not be called lightning.py: `import lightning` would find it first.)
From a build tree: PYTHONPATH=build/python python3 examples/lightning_mnist.py
"""
import common
import lightning
import torch
from mnist import network
from torch import nn
from torchvision import transforms

from dlcache.torch import DataLoader, Dataset


class Digits(lightning.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.model, self.lr = network(), lr

    def training_step(self, batch, _number):
        images, labels = batch
        return nn.functional.cross_entropy(self.model(images), labels)

    def validation_step(self, batch, _number):
        images, labels = batch
        right = (self.model(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, prog_bar=True, batch_size=len(labels), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.lr)


class Images(lightning.LightningDataModule):
    def __init__(self, args) -> None:
        super().__init__()
        self.args = args

    def setup(self, stage: str) -> None:
        as_tensor = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(),
                                        transforms.Normalize(0.13, 0.31)])
        self.images = {split: common.limited(Dataset(self.args.url, split, transform=as_tensor),
                                             self.args.limit) for split in ("train", "test")}

    def train_dataloader(self):
        return DataLoader(self.images["train"], self.args.batch_size, shuffle=True,
                          num_workers=self.args.workers, epochs=self.args.epochs)

    def val_dataloader(self):
        return DataLoader(self.images["test"], 500, num_workers=self.args.workers)


def main() -> None:
    parser = common.options(__doc__, data="mnist")
    parser.add_argument("--devices", default="auto", type=lambda s: s if s == "auto" else int(s),
                        help="processes; Lightning gives our loader a DistributedSampler then")
    args = parser.parse_args()
    args.url = common.url_of(args)
    lightning.seed_everything(0)
    trainer = lightning.Trainer(devices=args.devices, max_epochs=args.epochs, logger=False,
                                enable_checkpointing=False, enable_model_summary=False,
                                enable_progress_bar=args.progress)
    trainer.fit(Digits(args.lr), datamodule=Images(args))
    if trainer.is_global_zero:
        print(f"{100 * float(trainer.callback_metrics['accuracy']):.2f} % right")
        common.finish(trainer.train_dataloader, args.plot)


if __name__ == "__main__":
    main()
