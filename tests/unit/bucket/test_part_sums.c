// SPDX-License-Identifier: Apache-2.0
/* The checksum of an object from those of its parts, in whatever order they and its claim come. */
#include "unit.h"

#include "bucket/part_sums_i.h"

#define PART 100u

static char data[350];

/* Parts come before and after the claim; one comes twice. */
static bool right(uint64_t length, const struct object_checksum *claim, uint64_t early)
{
    uint64_t parts = (length + PART - 1) / PART;
    struct part_sums s;
    bool is;

    part_sums_init(&s, data, length, PART);
    for (uint64_t i = 0; i < parts && i < early; i++)
        part_sums_came(&s, i * PART);
    part_sums_want(&s, claim);
    for (uint64_t i = parts; i-- > early;)
        part_sums_came(&s, i * PART);
    if (parts > 0)
        part_sums_came(&s, parts / 2 * PART);
    is = part_sums_right(&s);
    part_sums_release(&s);
    part_sums_came(&s, 0); /* nobody asks any more */
    return is;
}

static void test_lengths(void **state)
{
    const uint64_t lengths[] = {0, 1, 99, 100, 101, 199, 200, 300, 350};
    const enum checksum_kind kinds[] = {CHECKSUM_CRC64NVME, CHECKSUM_CRC32C, CHECKSUM_CRC32};

    (void)state;
    for (unsigned i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 31 + i / 7);
    for (unsigned k = 0; k < unit_count(kinds); k++) {
        for (unsigned i = 0; i < unit_count(lengths); i++) {
            struct object_checksum claim = {.kind = kinds[k]};

            claim.value = checksum_add(kinds[k], 0, data, lengths[i]);
            for (uint64_t early = 0; early <= 4; early++)
                assert_true(right(lengths[i], &claim, early));
            claim.value ^= 1;
            assert_false(right(lengths[i], &claim, 1));
        }
    }
}

/* Where the bucket reports none, nothing is wrong. */
static void test_no_claim(void **state)
{
    (void)state;
    assert_true(right(250, &(struct object_checksum){.kind = CHECKSUM_NONE}, 1));
}

/* Parts of a byte each: as many sums as there are parts. */
static void test_many_parts(void **state)
{
    const struct object_checksum claim = {
        .kind = CHECKSUM_CRC32C, .value = checksum_add(CHECKSUM_CRC32C, 0, data, sizeof(data))};
    struct part_sums s;

    (void)state;
    part_sums_init(&s, data, sizeof(data), 1);
    part_sums_want(&s, &claim);
    for (uint64_t i = 0; i < sizeof(data); i++)
        part_sums_came(&s, i);
    assert_true(part_sums_right(&s));
    part_sums_release(&s);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 100 };
    const struct object_checksum claim = {.kind = CHECKSUM_CRC32C};
    size_t before;

    (void)state;
    right(350, &claim, 2);
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        right(350, &claim, 2);
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_no_claim),
        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
