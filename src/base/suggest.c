// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <limits.h>
#include <string.h>

#include "base/check.h"

#define NAME_MAX_LEN 64

/*
 * Characters to insert, delete, replace or swap with their neighbour (each once) to make b of a.
 * Three rows of the usual table are enough: row[i % 3] is the distance of the first i characters of
 * a.
 */
static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned row[3][NAME_MAX_LEN + 1];

    if (n > NAME_MAX_LEN || m > NAME_MAX_LEN)
        return UINT_MAX;
    for (size_t i = 0; i <= n; i++) {
        unsigned *cur = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];

        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                cur[j] = (unsigned)(i + j);
                continue;
            }
            cur[j] = up[j - 1] + (a[i - 1] != b[j - 1]);
            cur[j] = DLC_MIN(cur[j], up[j] + 1);
            cur[j] = DLC_MIN(cur[j], cur[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cur[j] = DLC_MIN(cur[j], up2[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

const char *nearest_name(const char *name, const char *const *names, size_t n)
{
    unsigned best = (unsigned)strlen(name) / 3 + 1; /* more typing errors than that: another word */
    const char *found = NULL;

    for (size_t i = 0; i < n; i++) {
        unsigned d = distance(name, names[i]);

        if (d < best || (d == best && found == NULL)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}
