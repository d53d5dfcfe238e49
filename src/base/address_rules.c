// SPDX-License-Identifier: Apache-2.0
/* One table of networks per kind. All addresses are compared as 16 bytes, IPv4 in its mapped form,
 * so that one comparison serves both families. */
#include "base/address_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

#define MAPPED 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff

/* The first that holds an address tells its kind. */
static const struct {
    struct address_net net;
    enum address_kind kind;
} table[] = {
    {{{MAPPED, 169, 254, 169, 254}, 128}, ADDRESS_METADATA}, /* AWS, Azure, Google and others */
    {{{MAPPED, 169, 254, 170, 2}, 128}, ADDRESS_METADATA},   /* ECS */
    {{{MAPPED, 169, 254, 170, 23}, 128}, ADDRESS_METADATA},  /* EKS pod identity */
    {{{MAPPED, 100, 100, 100, 200}, 128}, ADDRESS_METADATA}, /* Alibaba */
    {{{MAPPED, 168, 63, 129, 16}, 128}, ADDRESS_METADATA},   /* Azure's WireServer */
    {{{MAPPED, 192, 0, 0, 192}, 128}, ADDRESS_METADATA},     /* Oracle */
    {{{0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54}, 128}, ADDRESS_METADATA},
    {{{0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x23}, 128}, ADDRESS_METADATA},
    {{{0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54}, 128}, ADDRESS_METADATA},
    {{{MAPPED, 169, 254, 42, 42}, 128},
     ADDRESS_METADATA}, /* Scaleway, and its IPv6; then Oracle's */
    {{{0xfd, 0, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x42}, 128}, ADDRESS_METADATA},
    {{{0xfd, 0, 0, 0xc1, 0, 0, 0, 0, 0, 0, 0, 0, 0xa9, 0xfe, 0xa9, 0xfe}, 128}, ADDRESS_METADATA},
    {{{MAPPED, 0}, 96 + 8}, ADDRESS_UNSPECIFIED},
    {{{MAPPED, 127}, 96 + 8}, ADDRESS_LOOPBACK},
    {{{MAPPED, 10}, 96 + 8}, ADDRESS_PRIVATE},
    {{{MAPPED, 172, 16}, 96 + 12}, ADDRESS_PRIVATE},
    {{{MAPPED, 192, 168}, 96 + 16}, ADDRESS_PRIVATE},
    {{{MAPPED, 169, 254}, 96 + 16}, ADDRESS_LINK_LOCAL},
    {{{MAPPED, 100, 64}, 96 + 10}, ADDRESS_CGNAT},
    {{{MAPPED, 192, 0, 0}, 96 + 24}, ADDRESS_RESERVED},
    {{{MAPPED, 198, 18}, 96 + 15}, ADDRESS_RESERVED},
    {{{MAPPED, 224}, 96 + 4}, ADDRESS_MULTICAST},
    {{{MAPPED, 255, 255, 255, 255}, 128}, ADDRESS_BROADCAST},
    {{{MAPPED, 240}, 96 + 4}, ADDRESS_RESERVED},
    {{{0}, 128}, ADDRESS_UNSPECIFIED},
    {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128}, ADDRESS_LOOPBACK},
    {{{0xfc}, 7}, ADDRESS_PRIVATE},
    {{{0xfe, 0xc0}, 10}, ADDRESS_PRIVATE},
    {{{0xfe, 0x80}, 10}, ADDRESS_LINK_LOCAL},
    {{{0xff}, 8}, ADDRESS_MULTICAST},
    {{{0, 0x64, 0xff, 0x9b, 0, 1}, 48}, ADDRESS_PRIVATE}, /* NAT64 with a prefix of one's own */
    {{{0x20, 0x01, 0, 0}, 32}, ADDRESS_RESERVED},         /* Teredo: an IPv4 address in disguise */
};

/* Where IPv6 addresses hold an IPv4 address (ADDR-1). */
static const struct {
    struct address_net net;
    unsigned at;
} embedding[] = {
    {{{0, 0x64, 0xff, 0x9b}, 96}, 12},                      /* NAT64 */
    {{{0x20, 0x02}, 16}, 2},                                /* 6to4 */
    {{{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0}, 96}, 12}, /* translated (SIIT) */
    {{{0}, 96}, 12},                                        /* compatible; not :: and ::1 */
};

static bool net_holds(const struct address_net *n, const uint8_t a[static 16])
{
    unsigned whole = n->bits / 8, rest = n->bits % 8;

    return memcmp(n->bytes, a, whole) == 0 &&
           (rest == 0 || ((n->bytes[whole] ^ a[whole]) >> (8 - rest)) == 0);
}

static void map_v4(const uint8_t v4[static 4], uint8_t out[static 16])
{
    static const uint8_t prefix[12] = {MAPPED};
    uint8_t copy[4];

    memcpy(copy, v4, 4); /* it may lie in out */
    memcpy(out, prefix, sizeof(prefix));
    memcpy(out + 12, copy, 4);
}

/* As it came, in 16 bytes. False: not an IP address. */
static bool plain_bytes(const struct sockaddr *a, uint8_t out[static 16])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;

    if (a->sa_family == AF_INET)
        map_v4((const uint8_t *)&v4->sin_addr, out);
    else if (a->sa_family == AF_INET6)
        memcpy(out, &v6->sin6_addr, 16);
    return a->sa_family == AF_INET || a->sa_family == AF_INET6;
}

/* Replace it by the IPv4 address that it holds, if it does. */
static void unwrap(uint8_t a[static 16])
{
    static const uint8_t zero[15];

    if (memcmp(a, zero, sizeof(zero)) == 0 && a[15] <= 1)
        return; /* :: and ::1 */
    for (size_t i = 0; i < DLC_COUNT(embedding); i++)
        if (net_holds(&embedding[i].net, a)) {
            map_v4(a + embedding[i].at, a);
            return;
        }
}

static enum address_kind kind_of_bytes(const uint8_t a[static 16])
{
    for (size_t i = 0; i < DLC_COUNT(table); i++)
        if (net_holds(&table[i].net, a))
            return table[i].kind;
    return ADDRESS_PUBLIC;
}

enum address_kind address_kind_of(const struct sockaddr *a)
{
    uint8_t bytes[16];

    if (!plain_bytes(a, bytes))
        return ADDRESS_RESERVED;
    unwrap(bytes);
    return kind_of_bytes(bytes);
}

const char *address_kind_text(enum address_kind kind)
{
    static const char *const texts[] = {
        [ADDRESS_PUBLIC] = "a public address",
        [ADDRESS_UNSPECIFIED] = "an unspecified address",
        [ADDRESS_LOOPBACK] = "a loopback address",
        [ADDRESS_PRIVATE] = "a private address",
        [ADDRESS_LINK_LOCAL] = "a link-local address",
        [ADDRESS_CGNAT] = "an address of a carrier's NAT",
        [ADDRESS_METADATA] = "a metadata service of the cloud",
        [ADDRESS_MULTICAST] = "a multicast address",
        [ADDRESS_BROADCAST] = "the broadcast address",
        [ADDRESS_RESERVED] = "a reserved address",
    };

    return texts[kind];
}

bool address_rules_allow(const struct address_rules *r, const struct sockaddr *a)
{
    uint8_t plain[16], inner[16];
    enum address_kind kind;

    if (!plain_bytes(a, plain))
        return false;
    memcpy(inner, plain, sizeof(inner));
    unwrap(inner);
    kind = kind_of_bytes(inner);
    if (kind == ADDRESS_PUBLIC)
        return true;
    for (size_t i = 0; i < r->n; i++)
        if ((kind != ADDRESS_METADATA || r->nets[i].bits == 128) && /* (ADDR-2) */
            (net_holds(&r->nets[i], plain) || net_holds(&r->nets[i], inner)))
            return true;
    return false;
}

/* ---- text ---- */

static bool parse_address(const char *text, uint8_t out[static 16], unsigned *longest)
{
    uint8_t v4[4];

    *longest = 32;
    if (inet_pton(AF_INET, text, v4) == 1) {
        map_v4(v4, out);
        return true;
    }
    *longest = 128;
    return inet_pton(AF_INET6, text, out) == 1;
}

static bool rest_is_zero(const struct address_net *n)
{
    for (unsigned bit = n->bits; bit < 128; bit++)
        if ((n->bytes[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return false;
    return true;
}

static int parse_net(char *text, struct address_net *out, struct dlc_err *err)
{
    char *slash = strchr(text, '/');
    unsigned longest;
    uint64_t bits;

    if (slash != NULL)
        *slash = '\0';
    if (!parse_address(text, out->bytes, &longest))
        return dlc_err_set(err, DLC_EINVAL,
                           "\"%.80s\" is not a network; write it as 10.0.0.0/8 or fd12::/48", text);
    bits = longest;
    if (slash != NULL && (!str_parse_u64(slash + 1, &bits) || bits > longest))
        return dlc_err_set(err, DLC_EINVAL, "\"%.80s/%.20s\": the prefix length is 0 to %u", text,
                           slash + 1, longest);
    out->bits = (unsigned)bits + 128 - longest;
    if (!rest_is_zero(out))
        return dlc_err_set(err, DLC_EINVAL,
                           "\"%.80s/%u\": bits after the prefix are set; write the network's own "
                           "address",
                           text, (unsigned)bits);
    return 0;
}

int address_rules_parse(struct address_rules *r, const char *text, struct dlc_err *err)
{
    int rc = 0;

    dlc_check(r->n == 0);
    while (rc == 0 && *text != '\0') {
        size_t len = strcspn(text, ",");
        char *one = mem_strn(text, len);

        r->nets = mem_grow(r->nets, (r->n + 1) * sizeof(*r->nets));
        rc = parse_net(str_trim(one), &r->nets[r->n++], err);
        mem_free(&one);
        text += len + (text[len] == ',');
    }
    if (rc < 0)
        address_rules_release(r);
    return rc;
}

void address_rules_release(struct address_rules *r)
{
    mem_free(&r->nets);
    r->n = 0;
}

bool address_of_host(const char *host, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    char plain[256];
    size_t len;

    memset(out, 0, sizeof(*out));
    snprintf(plain, sizeof(plain), "%s", host);
    len = strlen(plain);
    while (len > 0 && plain[len - 1] == '.')
        plain[--len] = '\0';
    v4->sin_family = AF_INET;
    if (strcasecmp(plain, "localhost") == 0 ||
        (len > 10 && strcasecmp(plain + len - 10, ".localhost") == 0)) {
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return true;
    }
    if (inet_aton(plain, &v4->sin_addr) != 0) /* also 0xa9fea9fe and 2852039166 */
        return true;
    plain[strcspn(plain, "%")] = '\0';
    v6->sin6_family = AF_INET6;
    return inet_pton(AF_INET6, plain, &v6->sin6_addr) == 1;
}

void address_text(const struct sockaddr *a, char out[static 64])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;

    if (a->sa_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, out, 64);
    else if (a->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, out, 64);
    else
        snprintf(out, 64, "family %d", a->sa_family);
}
