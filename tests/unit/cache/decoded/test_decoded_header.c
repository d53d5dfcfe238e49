// SPDX-License-Identifier: Apache-2.0
#include "cache/decoded/decoded_header.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ipc/shm.h"

#define LEN  200u
#define SIZE (sizeof(struct shm_decoded_hdr) + LEN)

static void test_any_change_shows(void **state)
{
    alignas(8) unsigned char decoded[SIZE + 1] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(decoded); i++)
        decoded[i] = (unsigned char)(i * 7);
    decoded_seal(decoded, 7, 99, LEN);
    assert_true(decoded_is_sound(decoded, SIZE, 7));
    assert_true(decoded_is_for(decoded, SIZE, 7, 99));
    assert_false(decoded_is_for(decoded, SIZE, 7, 98));
    assert_false(decoded_is_sound(decoded, SIZE, 8)); /* another sample's */
    assert_false(decoded_is_for(decoded, SIZE, 8, 99));
    for (size_t n = 0; n < SIZE; n++) { /* cut short */
        assert_false(decoded_is_sound(decoded, n, 7));
        assert_false(decoded_is_for(decoded, n, 7, 99));
    }
    assert_false(decoded_is_sound(decoded, SIZE + 1, 7));
    for (size_t i = 0; i < SIZE; i++) {
        bool policy = i >= offsetof(struct shm_decoded_hdr, policy) &&
                      i < offsetof(struct shm_decoded_hdr, len);
        bool sum = i >= offsetof(struct shm_decoded_hdr, sum) &&
                   i < offsetof(struct shm_decoded_hdr, reserved);
        bool unused =
            i >= offsetof(struct shm_decoded_hdr, reserved) && i < sizeof(struct shm_decoded_hdr);

        decoded[i] ^= 0x10;
        assert_int_equal(decoded_is_sound(decoded, SIZE, 7), policy || unused);
        assert_int_equal(decoded_is_for(decoded, SIZE, 7, 99),
                         sum || unused || i >= sizeof(struct shm_decoded_hdr));
        decoded[i] ^= 0x10;
    }
    assert_true(decoded_is_sound(decoded, SIZE, 7));
}

static void test_empty(void **state)
{
    alignas(8) unsigned char decoded[sizeof(struct shm_decoded_hdr)] = {0};

    (void)state;
    assert_false(decoded_is_sound(decoded, sizeof(decoded), 0));
    decoded_seal(decoded, 0, 0, 0);
    assert_true(decoded_is_sound(decoded, sizeof(decoded), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_change_shows),
        cmocka_unit_test(test_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
