// SPDX-License-Identifier: Apache-2.0
/*
 * Documents of datasets:
 *
 *     {"url", "endpoint"?, "splits": [...], "created_ms",
 *      "nodes"?: [...], "node_count"?: n     where it lies; neither: on all nodes
 *      "snapshot"?: {"id", "samples", "objects", "bytes", "time_ms", "splits": [{"name", "samples",
 *                    "bytes"}]}
 *      "error"?: "..."                       why the last listing failed
 *      "name"?: "..."                        where the id does not tell it (base/dataset_name.h)
 *      "moving"?: {"waiting": [...], "leaving": [...]},
 *      "spread"?: {...}                      shares of nodes, where it lies on all (dataset_spread.h)
 *     }
 *
 * Pure. Commands and their results are in docs/design/0006.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_DOC_H
#define DLC_MANAGER_TABLES_DATASET_DOC_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "manager/store/store.h"

#define SPLITS_MAX    64
#define SPLIT_MAX_LEN 255

/* NULL: it was not listed yet. Borrowed. */
const json_t *dataset_snapshot(const json_t *body);
/* Bytes of splits (an array; empty or NULL: of everything). False: a split is not there. */
bool snapshot_bytes(const json_t *snapshot, const json_t *splits, uint64_t *bytes);
bool snapshot_samples(const json_t *snapshot, const json_t *splits, uint64_t *samples);
/* A node's listing result as it goes into the document. NULL: it is invalid. */
json_t *snapshot_of_result(const json_t *result);
/* Names of the nodes it lies on; NULL: on all. Borrowed. */
const json_t *dataset_nodes(const json_t *body);
/*
 * A command about the dataset. It names the owner: the dataset's name may have another owner when
 * the command is carried out. An eviction has its URL too. tier: NULL: none. Gives.
 */
json_t *dataset_command(const struct store_doc *d, const char *op, const char *tier);
/* Is that command about it? */
bool dataset_commanded(const struct store_doc *d, const json_t *command);
/* What its tenant calls it. Borrowed. */
const char *dataset_doc_name(const struct store_doc *d);
/* Is it the same dataset, perhaps changed, or another one with its name? */
bool dataset_is(const struct store_doc *now, const struct store_doc *was);
/* As the API shows it to an admin. Gives. */
json_t *dataset_json(const struct store_doc *d);

#endif
