// SPDX-License-Identifier: Apache-2.0
/* Lists of networks and hosts of URLs: the first line is the list, the second the host. An address
 * that is not public is allowed only by a network, and in both forms of one IPv4 address alike. */
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/address_rules.h"
#include "base/check.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare_forms(const struct address_rules *r, const struct sockaddr_storage *ss)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)ss;
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
    const struct sockaddr *a = (const struct sockaddr *)ss;
    const struct sockaddr *b = (const struct sockaddr *)&mapped;

    if (ss->ss_family != AF_INET)
        return;
    mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&mapped.sin6_addr.s6_addr[12], &v4->sin_addr, 4);
    dlc_check(address_kind_of(a) == address_kind_of(b));
    dlc_check(address_rules_allow(r, a) == address_rules_allow(r, b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address_rules none = ADDRESS_RULES_INIT, r = ADDRESS_RULES_INIT;
    char *text = mem_strn((const char *)data, size), *line = strchr(text, '\n'), shown[64];
    struct dlc_err err = DLC_ERR_INIT;
    struct sockaddr_storage ss;

    if (line != NULL)
        *line++ = '\0';
    dlc_check(address_rules_parse(&r, text, &err) == 0 || r.n == 0);
    for (size_t i = 0; i < r.n; i++)
        dlc_check(r.nets[i].bits <= 128);
    if (line != NULL && address_of_host(line, &ss)) {
        const struct sockaddr *a = (const struct sockaddr *)&ss;
        bool is_public = address_kind_of(a) == ADDRESS_PUBLIC;

        dlc_check(address_rules_allow(&none, a) == is_public);
        dlc_check(!is_public || address_rules_allow(&r, a));
        compare_forms(&r, &ss);
        address_text(a, shown);
    }
    address_rules_release(&r);
    mem_free(&text);
    return 0;
}
