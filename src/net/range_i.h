// SPDX-License-Identifier: Apache-2.0
/*
 * Range requests (RFC 9110, 14): one range of bytes. Several at once, other units and what is not
 * understood get the whole, as the RFC allows.
 */
#ifndef DLC_NET_RANGE_I_H
#define DLC_NET_RANGE_I_H

#include <stdint.h>

enum range { RANGE_WHOLE, RANGE_PART, RANGE_BEYOND };

/*
 * What of `size` bytes the value of a Range header asks for. RANGE_PART: [*first, *last], both
 * below size. RANGE_BEYOND: nothing that is there (416).
 */
enum range range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *last);

#endif
