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

yoke_status
yki_check_feed(const char *function, const yoke_feed *feed, yoke_type type, yoke_shape shape,
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
    if (n > 0 && !feed->data)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: the data of feed \"%s\" is NULL",
                        function, feed->name);
    if (feed->length || feed->reserved[0] || feed->reserved[1])
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: feed \"%s\": length and reserved must be 0; yoke_feed_f32 and its "
                        "like make such feeds",
                        function, feed->name);
    return YOKE_OK;
}

yoke_status
yki_check_labels(const yoke_node *node, int64_t n, const void *data)
{
    int64_t per_sample = yki_shape_count(node->shape);

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
