# SPDX-License-Identifier: Apache-2.0
"""The order in which a loader reads: samplers, the batches of an epoch, and what the daemon knows
of them."""
