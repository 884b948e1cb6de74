/* SPDX-License-Identifier: Apache-2.0
 *
 * check_feeds.c - checks what a caller gives to an input: first the type and the count of
 * values, then each label that selects a class or a row.
 */
#include "replica/replica.h"

static yoke_status
check_type(const char *function, const yoke_feed *feed, yoke_type type)
{
    if (!yki_value_type_name(feed->type))
        return yki_fail(YOKE_ERROR_TYPE,
                        "%s: feed \"%s\" has type %d; must be YOKE_F32, YOKE_I32 or YOKE_U8",
                        function, feed->name, (int)feed->type);
    if (feed->type != type)
        return yki_fail(YOKE_ERROR_TYPE, "%s: feed \"%s\" has type %s; must be %s", function,
                        feed->name, yki_value_type_name(feed->type), yki_value_type_name(type));
    return YOKE_OK;
}

static yoke_status
check_rest(const char *function, const yoke_feed *feed, int64_t length, int64_t n)
{
    if (n > 0 && !feed->data)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: the data of feed \"%s\" is NULL",
                        function, feed->name);
    if (feed->length && feed->length != length)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: feed \"%s\": length is %lld; must be 0%s%.0lld", function, feed->name,
                        (long long)feed->length, length ? ", or as its count says " : "",
                        (long long)length);
    if (feed->reserved[0] || feed->reserved[1])
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: feed \"%s\": reserved must be 0; yoke_feed_f32 and its like make "
                        "such feeds",
                        function, feed->name);
    return YOKE_OK;
}

yoke_status
yki_check_feed_of(const char *function, const yoke_feed *feed, yoke_type type, yoke_shape shape,
                  int64_t n)
{
    int64_t per_sample = yki_shape_count(shape);
    char text[128];

    YKI_TRY(check_type(function, feed, type));
    /* By division: n times a sample may be beyond 64 bits. */
    if (feed->count / per_sample != n || feed->count % per_sample != 0)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s: feed \"%s\" has %lld value%s; must be %.0f for %lld sample%s of %s",
                        function, feed->name, (long long)feed->count, feed->count == 1 ? "" : "s",
                        (double)n * (double)per_sample, (long long)n, n == 1 ? "" : "s",
                        yki_shape_text(shape, text, sizeof text));
    return check_rest(function, feed, 0, n);
}

/* A sequence has from 1 to node->length rows in each sample. */
static yoke_status
check_sequence(const char *function, const yoke_feed *feed, const yoke_node *node, int64_t n,
               int64_t *length)
{
    int64_t row = yki_shape_count(node->shape), rows = feed->count / row;
    char text[128];

    YKI_TRY(check_type(function, feed, node->type));
    if (n == 0 ? feed->count != 0
               : feed->count % row != 0 || rows % n != 0 || rows / n < 1 || rows / n > node->length)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s: feed \"%s\" has %lld value%s; must be %lld sample%s of 1 to %lld rows "
                        "of %s, of one length",
                        function, feed->name, (long long)feed->count, feed->count == 1 ? "" : "s",
                        (long long)n, n == 1 ? "" : "s", (long long)node->length,
                        yki_shape_text(node->shape, text, sizeof text));
    *length = n ? rows / n : 0;
    return check_rest(function, feed, *length, n);
}

yoke_status
yki_check_feed(const char *function, const yoke_feed *feed, const yoke_node *node, int64_t n,
               int64_t *length)
{
    *length = 0;
    if (node->length)
        return check_sequence(function, feed, node, n, length);
    return yki_check_feed_of(function, feed, node->type, node->shape, n);
}

yoke_status
yki_fail_lengths(const char *function, const char *name, int64_t length, const char *other,
                 int64_t other_length)
{
    return yki_fail(YOKE_ERROR_SHAPE,
                    "%s: the samples of \"%s\" have %lld row%s and those of \"%s\" have %lld; must "
                    "be as many",
                    function, name, (long long)length, length == 1 ? "" : "s", other,
                    (long long)other_length);
}

int64_t
yki_sample_count(const yoke_node *node, int64_t length)
{
    return yki_shape_count(node->shape) * (node->length ? length : 1);
}

yoke_status
yki_check_labels(const yoke_node *node, int64_t length, int64_t n, const void *data)
{
    int64_t per_sample = yki_sample_count(node, length);

    for (int64_t i = 0; node->low < node->limit && i < n * per_sample; i++) {
        int64_t label =
            node->type == YOKE_U8 ? ((const uint8_t *)data)[i] : ((const int32_t *)data)[i];

        if (!yki_value_fits(node, label))
            return yki_fail(YOKE_ERROR_VALUE,
                            "%s: sample %lld has the label %lld; must be between %lld and %lld",
                            node->name, (long long)(i / per_sample), (long long)label,
                            (long long)node->low, (long long)node->limit - 1);
    }
    return YOKE_OK;
}
