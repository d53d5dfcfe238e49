// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/parse_i.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include <expat.h>
#include <jansson.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/secret.h"

#define FIELD_MAX 16384 /* of one value; session tokens are long */
#define QUOTE_MAX 160   /* of what an error says */

/* ---- time ---- */

/* n digits that make a number from lo to hi, and the character after them (0: any). */
static bool take(const char **s, int n, int lo, int hi, char after, int *out)
{
    int v = 0;

    for (; n > 0; n--, (*s)++) {
        if (!isdigit((unsigned char)**s))
            return false;
        v = v * 10 + (**s - '0');
    }
    if (after != '\0' && *(*s)++ != after)
        return false;
    *out = v;
    return v >= lo && v <= hi;
}

static bool take_offset(const char *s, int *seconds)
{
    int hours, minutes, sign = *s == '-' ? -1 : 1;

    *seconds = 0;
    if (strcmp(s, "Z") == 0)
        return true;
    if (*s != '+' && *s != '-')
        return false;
    s++;
    if (!take(&s, 2, 0, 23, ':', &hours) || !take(&s, 2, 0, 59, '\0', &minutes) || *s != '\0')
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

bool answer_time(const char *s, int64_t *unix_time)
{
    struct tm tm = {0};
    int offset;

    if (!take(&s, 4, 1970, 9999, '-', &tm.tm_year) || !take(&s, 2, 1, 12, '-', &tm.tm_mon) ||
        !take(&s, 2, 1, 31, 'T', &tm.tm_mday) || !take(&s, 2, 0, 23, ':', &tm.tm_hour) ||
        !take(&s, 2, 0, 59, ':', &tm.tm_min) || !take(&s, 2, 0, 60, '\0', &tm.tm_sec))
        return false;
    if (*s == '.')
        s += 1 + strspn(s + 1, "0123456789");
    if (!take_offset(s, &offset))
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *unix_time = (int64_t)timegm(&tm) - offset;
    return true;
}

/* ---- what both forms share ---- */

/* The values of an answer; any may be NULL. */
struct fields {
    char *access_key, *secret_key, *session_token, *expiration, *code, *message;
};

static void fields_release(struct fields *f)
{
    secret_free(&f->access_key);
    secret_free(&f->secret_key);
    secret_free(&f->session_token);
    mem_free(&f->expiration);
    mem_free(&f->code);
    mem_free(&f->message);
}

static int said_no(const struct fields *f, struct dlc_err *err)
{
    const char *message = f->message == NULL ? "no message" : f->message;
    struct buf b = BUF_INIT;

    str_printable(f->code, DLC_MIN(strlen(f->code), QUOTE_MAX), &b);
    buf_adds(&b, ": ");
    str_printable(message, DLC_MIN(strlen(message), QUOTE_MAX), &b);
    dlc_err_set(err, DLC_EDENIED, "%s", buf_str(&b));
    buf_release(&b);
    return DLC_EDENIED;
}

/* Takes what f holds into *out. */
static int fields_to_credentials(struct fields *f, struct credentials *out, struct dlc_err *err)
{
    int64_t expires = 0;

    if (f->code != NULL && strcmp(f->code, "Success") != 0)
        return said_no(f, err);
    if (f->access_key == NULL || f->secret_key == NULL)
        return dlc_err_set(err, DLC_EPROTO, "the answer has no %s",
                           f->access_key == NULL ? "AccessKeyId" : "SecretAccessKey");
    if (f->expiration != NULL && !answer_time(f->expiration, &expires))
        return dlc_err_set(err, DLC_EPROTO, "the answer's Expiration is not a time");
    *out = (struct credentials){.access_key = f->access_key,
                                .secret_key = f->secret_key,
                                .session_token = f->session_token,
                                .expires = expires};
    f->access_key = f->secret_key = f->session_token = NULL;
    return 0;
}

/* ---- JSON ---- */

/* Gives a member's text and wipes the parser's copy; NULL when absent, null or empty. */
static char *json_field(json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    const char *s = json_string_value(v);
    char *copy;

    if (s == NULL || s[0] == '\0')
        return NULL;
    copy = mem_str(s);
    secret_json_wipe(v);
    return copy;
}

int answer_json(const char *text, size_t len, struct credentials *out, struct dlc_err *err)
{
    json_t *o = json_loadb(text, len, 0, NULL);
    struct fields f = {NULL};
    int rc;

    *out = (struct credentials)CREDENTIALS_INIT;
    if (!json_is_object(o)) {
        rc = dlc_err_set(err, DLC_EPROTO, "the answer is not a JSON object");
        goto out;
    }
    f.access_key = json_field(o, "AccessKeyId");
    f.secret_key = json_field(o, "SecretAccessKey");
    f.session_token = json_field(o, "Token");
    if (f.session_token == NULL)
        f.session_token = json_field(o, "SessionToken");
    f.expiration = json_field(o, "Expiration");
    f.code = json_field(o, "Code");
    if (f.code == NULL)
        f.code = json_field(o, "code");
    f.message = json_field(o, "Message");
    if (f.message == NULL)
        f.message = json_field(o, "message");
    rc = fields_to_credentials(&f, out, err);
out:
    fields_release(&f);
    json_decref(o);
    return rc;
}

/* ---- XML ---- */

struct xml_reader {
    XML_Parser parser;
    struct fields f;
    char **field; /* the one being read, or NULL */
    struct buf text;
};

static char **field_of(struct fields *f, const char *element)
{
    if (strcmp(element, "AccessKeyId") == 0)
        return &f->access_key;
    if (strcmp(element, "SecretAccessKey") == 0)
        return &f->secret_key;
    if (strcmp(element, "SessionToken") == 0)
        return &f->session_token;
    if (strcmp(element, "Expiration") == 0)
        return &f->expiration;
    if (strcmp(element, "Code") == 0)
        return &f->code;
    if (strcmp(element, "Message") == 0)
        return &f->message;
    return NULL;
}

static void on_start(void *priv, const char *name, const char **attributes)
{
    struct xml_reader *r = priv;

    (void)attributes;
    r->field = field_of(&r->f, name);
    buf_clear(&r->text);
}

static void on_text(void *priv, const char *s, int len)
{
    struct xml_reader *r = priv;

    if (r->field == NULL)
        return;
    if (r->text.len + (size_t)len > FIELD_MAX)
        XML_StopParser(r->parser, XML_FALSE);
    else
        buf_add(&r->text, s, (size_t)len);
}

static void on_end(void *priv, const char *name)
{
    struct xml_reader *r = priv;

    (void)name;
    if (r->field != NULL && r->text.len > 0) {
        secret_free(r->field);
        *r->field = mem_str(buf_str(&r->text));
    }
    r->field = NULL;
}

/* No answer of STS has one, and entities only serve to blow the parser up. */
static void on_doctype(void *priv, const char *name, const char *sysid, const char *pubid,
                       int has_internal)
{
    struct xml_reader *r = priv;

    (void)name;
    (void)sysid;
    (void)pubid;
    (void)has_internal;
    XML_StopParser(r->parser, XML_FALSE);
}

int answer_sts(const char *text, size_t len, struct credentials *out, struct dlc_err *err)
{
    struct xml_reader r = {.parser = XML_ParserCreate(NULL)};
    int rc;

    *out = (struct credentials)CREDENTIALS_INIT;
    dlc_check(r.parser != NULL && len <= INT32_MAX);
    buf_reserve(&r.text, FIELD_MAX);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    if (XML_Parse(r.parser, text, (int)len, 1) == XML_STATUS_OK)
        rc = fields_to_credentials(&r.f, out, err);
    else
        rc = dlc_err_set(err, DLC_EPROTO, "the answer is not XML of STS");
    XML_ParserFree(r.parser);
    fields_release(&r.f);
    secret_buf_release(&r.text);
    return rc;
}

int answer_of_web(const struct web_answer *a, answer_f *parse, struct credentials *out,
                  struct dlc_err *err)
{
    int rc = parse(buf_str(&a->body), a->body.len, out, err);

    if (rc == 0 && a->status != 200) {
        credentials_release(out);
        rc = DLC_EPROTO;
    }
    if (rc == DLC_EPROTO && a->status != 200)
        dlc_err_set(err, rc, "HTTP status %ld", a->status);
    return rc;
}
