# SPDX-License-Identifier: Apache-2.0
"""Worker processes of DataLoader: the pool, the transport of batches, and how many workers run."""
