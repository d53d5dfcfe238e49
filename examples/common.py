# SPDX-License-Identifier: Apache-2.0
"""What the examples share: options, where the data comes from, how good a model is.

Nothing here is needed to use dlcache; the examples themselves show all of that.
"""
import argparse
import pathlib
import subprocess
import sys

import torch
from torch.utils.data import Subset

ROOT = pathlib.Path(__file__).resolve().parent.parent


def options(text: str, data: str, **defaults) -> argparse.ArgumentParser:
    """A parser with the options of all examples. `data` names a set of tools/get-data."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("--url", help="where the images lie: s3://, gs://, http(s):// or file://, with"
                        f" train/CLASS/* and test/CLASS/* below (default: {data}, from tools/get-data)")
    parser.add_argument("--epochs", type=int, default=defaults.get("epochs", 1))
    parser.add_argument("--batch-size", type=int, default=defaults.get("batch_size", 64))
    parser.add_argument("--lr", type=float, default=defaults.get("lr", 2e-3), help="learning rate")
    parser.add_argument("--workers", default="auto", type=lambda s: s if s == "auto" else int(s),
                        help="number of worker processes, or auto (default)")
    parser.add_argument("--limit", type=int, help="use so many images of each split, not all")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw the report of the training loader")
    parser.add_argument("--no-progress", dest="progress", action="store_false",
                        default=sys.stderr.isatty(), help="no line on stderr while training")
    parser.set_defaults(data=data)
    return parser


def url_of(args: argparse.Namespace) -> str:
    """--url, or a file:// URL of what tools/get-data fetched (once; it stays in build/data)."""
    if args.url:
        return args.url
    tool = subprocess.run([ROOT / "tools/get-data", args.data], stdout=subprocess.PIPE, text=True)
    if tool.returncode != 0:
        sys.exit("No data: give --url, or see above why tools/get-data found none.")
    return pathlib.Path(tool.stdout.strip()).resolve().as_uri() + "/"


def limited(dataset, limit: int | None):
    """The dataset, or a Subset of `limit` samples picked at random, the same in every run."""
    if limit is None or limit >= len(dataset):
        return dataset
    picked = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))[:limit]
    return Subset(dataset, picked.tolist())


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@torch.no_grad()
def accuracy(model: torch.nn.Module, loader, where: torch.device) -> float:
    """Share of the loader's samples that the model names rightly, in percent."""
    model.eval()
    right = seen = 0
    for images, labels in loader:
        right += (model(images.to(where)).argmax(1).cpu() == labels).sum().item()
        seen += len(labels)
    model.train()
    return 100 * right / max(1, seen)


def finish(loader, plot: str | None) -> None:
    """Print the report of a loader and draw it if asked to."""
    report = loader.report()
    print(report)
    if plot:
        report.plot(plot)
        print(f"drawn: {plot}")
