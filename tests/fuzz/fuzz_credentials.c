// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as what a metadata service, STS, or a token service of OAuth answers (first byte).
 * In the last, "@0" to "@f" are numbers at the edges. */
#include "fuzz_numbers.h"

#include "base/check.h"
#include "base/mem.h"
#include "bucket/credentials/parse_i.h"
#include "bucket/credentials/token_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void token(const uint8_t *data, size_t size, long status)
{
    const int64_t now = 1700000000;
    struct web_answer a = WEB_ANSWER_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials c;

    a.status = status;
    fuzz_expand(data, size, &a.body);
    if (token_answer(&a, now, &c, &err) == 0)
        dlc_check(status == 200 && c.bearer[0] != '\0' && c.expires > now);
    else
        dlc_check(err.text[0] != '\0' && c.bearer == NULL);
    credentials_release(&c);
    web_answer_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials c;
    char *text;
    int64_t t;
    int rc;

    if (size < 1)
        return 0;
    if (data[0] >= 'x') {
        token(data + 1, size - 1, data[0] == 'x' ? 200 : 400);
        return 0;
    }
    text = mem_strn((const char *)data + 1, size - 1);
    if (data[0] % 2 == 0)
        rc = answer_json(text, size - 1, &c, &err);
    else
        rc = answer_sts(text, size - 1, &c, &err);
    if (rc == 0)
        dlc_check(c.access_key[0] != '\0' && c.secret_key[0] != '\0');
    else
        dlc_check(err.text[0] != '\0' && c.access_key == NULL && c.secret_key == NULL);
    credentials_release(&c);
    if (answer_time(text, &t))
        dlc_check(t >= -86400 && t < 253402387200); /* 1970 to 9999, give or take an offset */
    mem_free(&text);
    return 0;
}
