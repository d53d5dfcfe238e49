// SPDX-License-Identifier: Apache-2.0
/*
 * Three cyclic checksums, one algorithm. All are "reflected": bit 0 of a byte is the highest power
 * of x, so a checksum of 32 bits can live in the low half of a 64-bit register and the same code
 * serves every width.
 *
 * Portable: eight bytes per step by eight tables.
 *
 * With carry-less multiplication (PCLMULQDQ on x86): the message is a long polynomial, and only its
 * remainder modulo P counts. A block A that lies D bits before another one can be replaced by
 * A * (x^D mod P), added to that one. So four 128-bit accumulators walk over the message, each
 * folded onto the block 512 bits ahead; in the end they are folded onto one another, and the 16
 * bytes that remain have the same remainder as the whole message: the tables finish them and the
 * tail.
 *
 * Constants are computed when first needed, not written down: x^n mod P by n shifts.
 */
#include "bucket/checksum.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct crc {
    uint64_t poly; /* reflected, without its highest power */
    int bits;
    uint64_t table[8][256];
    uint64_t fold512[2], fold128[2]; /* for the low and the high half of a block */
};

static struct crc crc32 = {.poly = 0xedb88320, .bits = 32};
static struct crc crc32c = {.poly = 0x82f63b78, .bits = 32};
static struct crc crc64nvme = {.poly = 0x9a6c9329ac4bc9b5, .bits = 64};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool can_fold;
static _Atomic bool portable_only;

static void make_tables(struct crc *c)
{
    for (unsigned b = 0; b < 256; b++) {
        uint64_t v = b;

        for (int i = 0; i < 8; i++)
            v = v >> 1 ^ (v & 1 ? c->poly : 0);
        c->table[0][b] = v;
    }
    for (unsigned b = 0; b < 256; b++) {
        for (int t = 1; t < 8; t++) {
            uint64_t v = c->table[t - 1][b];

            c->table[t][b] = v >> 8 ^ c->table[0][v & 255];
        }
    }
}

/* x^n mod P, reflected in 64 bits: bit 63 is x^0. */
static uint64_t power(const struct crc *c, int n)
{
    uint64_t v = (uint64_t)1 << (c->bits - 1); /* 1, reflected in `bits` bits */

    while (n-- > 0)
        v = v >> 1 ^ (v & 1 ? c->poly : 0);
    return v << (64 - c->bits);
}

/*
 * The low half of a reflected block is its high-order half, and the product of two reflected values
 * comes out multiplied by x. Hence D + 64 - 1 for the low half and D - 1 for the high one.
 */
static void make_folds(struct crc *c)
{
    c->fold512[0] = power(c, 512 + 63);
    c->fold512[1] = power(c, 512 - 1);
    c->fold128[0] = power(c, 128 + 63);
    c->fold128[1] = power(c, 128 - 1);
}

static void init(void)
{
    struct crc *all[] = {&crc32, &crc32c, &crc64nvme};

    for (int i = 0; i < 3; i++) {
        make_tables(all[i]);
        make_folds(all[i]);
    }
#if defined(__x86_64__)
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static uint64_t by_table(const struct crc *c, uint64_t state, const unsigned char *p, size_t len)
{
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v = state ^ load64(p);

        state = 0;
        for (int t = 0; t < 8; t++)
            state ^= c->table[7 - t][v >> 8 * t & 255];
    }
    for (; len > 0; p++, len--)
        state = state >> 8 ^ c->table[0][(state ^ *p) & 255];
    return state;
}

#if defined(__x86_64__)
__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i a, __m128i k, __m128i b)
{
    return _mm_xor_si128(
        b, _mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)));
}

__attribute__((target("pclmul,sse4.1"))) static inline __m128i load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* len >= 64 */
__attribute__((target("pclmul,sse4.1"))) static uint64_t
by_folding(const struct crc *c, uint64_t state, const unsigned char *p, size_t len)
{
    __m128i k512 = _mm_set_epi64x((long long)c->fold512[1], (long long)c->fold512[0]);
    __m128i k128 = _mm_set_epi64x((long long)c->fold128[1], (long long)c->fold128[0]);
    __m128i a0 = _mm_xor_si128(load(p), _mm_set_epi64x(0, (long long)state));
    __m128i a1 = load(p + 16), a2 = load(p + 32), a3 = load(p + 48);
    unsigned char last[16];

    for (p += 64, len -= 64; len >= 64; p += 64, len -= 64) {
        a0 = fold(a0, k512, load(p));
        a1 = fold(a1, k512, load(p + 16));
        a2 = fold(a2, k512, load(p + 32));
        a3 = fold(a3, k512, load(p + 48));
    }
    a3 = fold(fold(fold(a0, k128, a1), k128, a2), k128, a3);
    for (; len >= 16; p += 16, len -= 16)
        a3 = fold(a3, k128, load(p));
    _mm_storeu_si128((__m128i *)(void *)last, a3);
    return by_table(c, by_table(c, 0, last, sizeof(last)), p, len);
}
#endif

static uint64_t update(const struct crc *c, uint64_t sum, const void *data, size_t len)
{
    uint64_t ones = c->bits == 64 ? UINT64_MAX : ((uint64_t)1 << c->bits) - 1;

    pthread_once(&once, init);
#if defined(__x86_64__)
    if (len >= 64 && can_fold && !portable_only)
        return by_folding(c, sum ^ ones, data, len) ^ ones;
#endif
    return by_table(c, sum ^ ones, data, len) ^ ones;
}

uint32_t checksum_crc32(uint32_t sum, const void *data, size_t len)
{
    return (uint32_t)update(&crc32, sum, data, len);
}

uint32_t checksum_crc32c(uint32_t sum, const void *data, size_t len)
{
    return (uint32_t)update(&crc32c, sum, data, len);
}

uint64_t checksum_crc64nvme(uint64_t sum, const void *data, size_t len)
{
    return update(&crc64nvme, sum, data, len);
}

static const struct crc *crc_of(enum checksum_kind kind)
{
    switch (kind) {
    case CHECKSUM_CRC64NVME: return &crc64nvme;
    case CHECKSUM_CRC32C: return &crc32c;
    case CHECKSUM_CRC32: return &crc32;
    case CHECKSUM_NONE: break;
    }
    dlc_check(!"a kind of checksum");
    return NULL;
}

uint64_t checksum_add(enum checksum_kind kind, uint64_t sum, const void *data, size_t len)
{
    return update(crc_of(kind), sum, data, len);
}

/* a * b mod P; bit `bits` - 1 is x^0. */
static uint64_t multiply(const struct crc *c, uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (uint64_t bit = (uint64_t)1 << (c->bits - 1); bit != 0; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = b >> 1 ^ (b & 1 ? c->poly : 0);
    }
    return product;
}

/* The bytes that follow shift what came before by x^(8 len); what each checksum begins and ends
 * with cancels out. */
uint64_t checksum_combine(enum checksum_kind kind, uint64_t first, uint64_t second, uint64_t len)
{
    const struct crc *c = crc_of(kind);
    uint64_t square = (uint64_t)1 << (c->bits - 9); /* x^8 */

    for (; len > 0; len >>= 1) {
        if (len & 1)
            first = multiply(c, first, square);
        square = multiply(c, square, square);
    }
    return first ^ second;
}

void checksum_use_portable(bool yes)
{
    portable_only = yes;
}
