// SPDX-License-Identifier: Apache-2.0
/*
 * YAML as JSON, as Kubernetes means it: kubeconfig files, and what users write into ConfigMaps.
 *
 * Plain scalars are read by YAML 1.2's core schema (null, true, false, numbers; "yes" and "on" are
 * texts), quoted ones are texts. Keys are texts, each once. Refused, with line and column: a second
 * document, anchors and aliases (a few bytes could become gigabytes), tags other than !!str,
 * nesting of more than YAML_DEPTH, texts that are not UTF-8 or hold NUL, more than YAML_MAX bytes.
 * JSON is YAML.
 */
#ifndef DLC_OPERATOR_KUBE_YAML_H
#define DLC_OPERATOR_KUBE_YAML_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

#define YAML_MAX   (2u << 20)
#define YAML_DEPTH 64

/* `name` is for errors. Gives *out; an empty text gives JSON's null. Returns 0 or DLC_EINVAL. */
int yaml_parse(const char *name, const char *text, size_t len, json_t **out, struct dlc_err *err);

#endif
