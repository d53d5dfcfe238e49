// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as YAML and as a kubeconfig: JSON comes out, or an error that names the place. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "operator/kube/kube_config.h"
#include "operator/kube/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_config c = KUBE_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *j;
    int rc = yaml_parse("y", (const char *)data, size, &j, &err);

    dlc_check(rc == 0 ? j != NULL : rc == DLC_EINVAL && j == NULL && err.text[0] == 'y');
    json_decref(j);
    rc = kube_config_parse(&c, "/d/k", (const char *)data, size, NULL, &err);
    dlc_check(rc == 0 ? c.server != NULL && c.namespace != NULL : c.server == NULL);
    kube_config_release(&c);
    return 0;
}
