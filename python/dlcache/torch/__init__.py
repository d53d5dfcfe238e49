# SPDX-License-Identifier: Apache-2.0
"""dlcache for PyTorch: Dataset and DataLoader. Needs torch 1.13 or later."""
