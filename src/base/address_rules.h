// SPDX-License-Identifier: Apache-2.0
/*
 * Address rules: which network addresses a URL may lead to when a tenant has chosen it.
 *
 * Public addresses are allowed. Addresses of the machine itself, of private networks and of
 * services that give a machine its credentials are not, unless a network (CIDR) in the rules holds
 * them. Judge an address after the host name was resolved, where the socket is opened: then neither
 * DNS rebinding nor a redirect leads around the rules.
 *
 * (ADDR-1) An IPv4 address inside an IPv6 address (mapped, translated, compatible, NAT64, 6to4) is
 *          judged as that IPv4 address.
 * (ADDR-2) Metadata services are allowed by a network of their one address only (/32, /128). A wide
 *          network, such as 100.64.0.0/10, is meant for machines and does not open them.
 *
 * Pure: no DNS, no system calls. X.
 */
#ifndef DLC_BASE_ADDRESS_RULES_H
#define DLC_BASE_ADDRESS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

enum address_kind {
    ADDRESS_PUBLIC,
    ADDRESS_UNSPECIFIED, /* 0.0.0.0/8, :: */
    ADDRESS_LOOPBACK,
    ADDRESS_PRIVATE, /* RFC 1918, unique local, site-local */
    ADDRESS_LINK_LOCAL,
    ADDRESS_CGNAT,    /* 100.64.0.0/10 */
    ADDRESS_METADATA, /* where clouds give machines their credentials */
    ADDRESS_MULTICAST,
    ADDRESS_BROADCAST,
    ADDRESS_RESERVED, /* by IANA, or not an IP address */
};

struct address_net {
    uint8_t bytes[16]; /* IPv4: mapped */
    unsigned bits;     /* of 128 */
};

struct address_rules {
    struct address_net *nets;
    size_t n;
};

#define ADDRESS_RULES_INIT                                                                         \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

/* Networks and addresses separated by commas: "10.0.0.0/8, fd12::/48, 192.0.2.1". An address stands
 * for itself alone; bits after the prefix must be 0. *r was ADDRESS_RULES_INIT, and is again on
 * failure. "" allows public addresses only. */
int address_rules_parse(struct address_rules *r, const char *text, struct dlc_err *err);
void address_rules_release(struct address_rules *r);

enum address_kind address_kind_of(const struct sockaddr *a);

/* "a loopback address": for errors. */
const char *address_kind_text(enum address_kind kind);

bool address_rules_allow(const struct address_rules *r, const struct sockaddr *a);

/* A host of a URL that is an address in any form that libcurl reads (0x7f000001, 2130706433, [::1]
 * without brackets, a zone after '%'), or localhost. False: a name that only DNS knows. */
bool address_of_host(const char *host, struct sockaddr_storage *out);

/* The address as people write it, without its port. */
void address_text(const struct sockaddr *a, char out[static 64]);

#endif
