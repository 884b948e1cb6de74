/* SPDX-License-Identifier: Apache-2.0
 *
 * shares.c - reads texts of shares, rounds to whole samples, and finds the fastest split.
 *
 *   shares = "auto" | "even" | weight ("," weight)*      weight = digits ["." digits]
 *
 * Idea of the fastest split: the number of samples that a device computes within T seconds
 * grows with T. Bisection over the bits of T finds the least T at which all devices together
 * compute n. So T is exact: it is one of the times that a device can take. If they compute
 * more than n within T, devices that take exactly T give samples back.
 *
 * Not here: where the times come from (pace.c).
 */
#include <math.h>
#include <string.h>

#include "base/near.h"
#include "shares/shares.h"

/* ---- texts ---- */

static bool
blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Reads one weight by the rules of a selector: no sign, no exponent, no locale. */
static const char *
read_weight(const char *at, double *weight)
{
    double value = 0, unit = 1;
    int digits = 0;

    for (; *at >= '0' && *at <= '9'; at++, digits++)
        value = value * 10 + (*at - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++, digits++) {
            value = value * 10 + (*at - '0');
            unit *= 10;
        }
    if (digits == 0 || digits > 15) /* more would not be exact in a double */
        return NULL;
    *weight = value / unit;
    return at;
}

static yoke_status
bad(const char *text, const char *reason)
{
    static const char *const words[] = {"auto", "even"};
    yki_near near;

    return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                    "shares \"%.80s\": %s; must be \"auto\", \"even\", or a weight for each device "
                    "such as \"80,20\"%s",
                    text, reason, yki_near_among(&near, text, words, YKI_COUNT(words)));
}

static yoke_status
parse_weights(const char *text, size_t devices, double *weights)
{
    const char *at = text;
    double sum = 0;
    size_t count = 0;

    for (;; at++) {
        double weight;

        while (blank(*at))
            at++;
        if (*at == '-')
            return bad(text, "a weight is negative");
        if ((at = read_weight(at, &weight)) == NULL)
            return bad(text, "this is not a list of numbers");
        while (blank(*at))
            at++;
        if (count < devices)
            weights[count] = weight;
        count++;
        sum += weight;
        if (*at != ',')
            break;
    }
    if (*at != '\0')
        return bad(text, "this is not a list of numbers");
    if (count != devices)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "shares \"%.80s\" have %zu weight%s, and the team has %zu device%s; give "
                        "one weight for each device",
                        text, count, count == 1 ? "" : "s", devices, devices == 1 ? "" : "s");
    if (!(sum > 0))
        return bad(text, "every weight is zero");
    return YOKE_OK;
}

bool
yki_shares_are_auto(const char *text)
{
    return text == NULL || strcmp(text, "auto") == 0;
}

yoke_status
yki_shares_parse(const char *text, yki_shares_kind otherwise, size_t devices, yki_shares_kind *kind,
                 double *weights)
{
    yki_shares_kind found = otherwise;

    if (devices == 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the number of devices is 0; must be at least 1");
    if (text != NULL && yki_shares_are_auto(text))
        found = YKI_SHARES_AUTO;
    else if (text != NULL && strcmp(text, "even") == 0)
        found = YKI_SHARES_EVEN;
    else if (text != NULL)
        found = YKI_SHARES_GIVEN;
    if (found == YKI_SHARES_GIVEN) {
        double *read = yki_alloc(devices, sizeof *read, "weights of shares");
        yoke_status status;

        if (read == NULL)
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = parse_weights(text, devices, read);
        if (status == YOKE_OK)
            memcpy(weights, read, devices * sizeof *read);
        yki_free(read);
        YKI_TRY(status);
    } else {
        for (size_t k = 0; k < devices; k++)
            weights[k] = 1;
    }
    *kind = found;
    return YOKE_OK;
}

/* ---- rounding ---- */

void
yki_shares_round(const double *weights, size_t devices, int64_t n, int64_t *counts)
{
    double sum = 0;
    int64_t left = n;

    for (size_t k = 0; k < devices; k++)
        sum += weights[k];
    for (size_t k = 0; k < devices; k++) {
        /* If the division came first, 0.3 of 10 would be less than 3. */
        double quota = (double)n * weights[k] / sum;

        counts[k] = YKI_MIN((int64_t)floor(quota), n);
        left -= counts[k];
    }
    /* At most one sample for each device is left: the largest remainders get them, one by one. */
    while (left != 0) {
        size_t best = devices;
        double most = 0;

        for (size_t k = 0; k < devices; k++) {
            double remainder = (double)n * weights[k] / sum - (double)counts[k];

            if (left < 0) /* rounded quotas gave too much: the least remainder gives back */
                remainder = -remainder;
            if (weights[k] > 0 && (left > 0 || counts[k] > 0) &&
                (best == devices || remainder > most)) {
                best = k;
                most = remainder;
            }
        }
        counts[best] += left > 0 ? 1 : -1;
        left -= left > 0 ? 1 : -1;
    }
}

yoke_status
yki_shares_split(const char *text, size_t devices, int64_t n, int64_t *counts)
{
    yki_shares_kind kind;
    double *weights;
    yoke_status status;

    if (n < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples to split", n, 0,
                              INT64_MAX);
    weights = yki_alloc(devices ? devices : 1, sizeof *weights, "weights of shares");
    if (weights == NULL)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_shares_parse(text, YKI_SHARES_EVEN, devices, &kind, weights);
    if (status == YOKE_OK && kind == YKI_SHARES_AUTO)
        status = yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                          "shares are \"auto\", which only a trainer can measure; must be \"even\" "
                          "or a list here (yoke_trainer_get_shares tells a trainer's)");
    if (status == YOKE_OK)
        yki_shares_round(weights, devices, n, counts);
    yki_free(weights);
    return status;
}

/* ---- the fastest split ---- */

double
yki_line_seconds(const yki_line *line, int64_t n)
{
    double seconds = line->a + line->b * (double)n;

    return n > 0 && seconds > 0 ? seconds : 0;
}

/* The largest number of samples, up to `limit`, that take no longer than `seconds`. */
static int64_t
within(const yki_line *line, double seconds, int64_t limit)
{
    double quotient;
    int64_t n;

    if (limit <= 0 || yki_line_seconds(line, 1) > seconds)
        return 0;
    if (yki_line_seconds(line, limit) <= seconds)
        return limit;
    quotient = (seconds - line->a) / line->b;
    n = quotient < 1 ? 1 : quotient < (double)limit ? (int64_t)quotient : limit;
    while (n > 1 && yki_line_seconds(line, n) > seconds) /* the quotient is rounded */
        n--;
    while (n < limit && yki_line_seconds(line, n + 1) <= seconds)
        n++;
    return n;
}

static int64_t
limit_of(const int64_t *limits, const bool *used, size_t k, int64_t n)
{
    if (used != NULL && !used[k])
        return 0;
    return limits == NULL ? n : YKI_MIN(limits[k], n);
}

static bool
enough(const yki_line *lines, const int64_t *limits, const bool *used, size_t devices, int64_t n,
       double seconds)
{
    int64_t left = n;

    for (size_t k = 0; k < devices && left > 0; k++)
        left -= within(&lines[k], seconds, limit_of(limits, used, k, n));
    return left <= 0;
}

/* Doubles that are not negative are ordered like their bits taken as integers. */
static double
of_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t
bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

double
yki_shares_fastest(const yki_line *lines, const int64_t *limits, const bool *used, size_t devices,
                   int64_t n, int64_t *counts)
{
    uint64_t low = bits_of(0.0), high;
    double longest = 0, seconds;
    int64_t over = -n;

    for (size_t k = 0; k < devices; k++)
        longest = fmax(longest, yki_line_seconds(&lines[k], limit_of(limits, used, k, n)));
    if (!enough(lines, limits, used, devices, n, longest))
        return -1;
    for (high = bits_of(longest); low < high;) {
        uint64_t middle = low + (high - low) / 2;

        if (enough(lines, limits, used, devices, n, of_bits(middle)))
            high = middle;
        else
            low = middle + 1;
    }
    seconds = of_bits(high);
    for (size_t k = 0; k < devices; k++) {
        counts[k] = within(&lines[k], seconds, limit_of(limits, used, k, n));
        over += counts[k];
    }
    /* With any less time the samples would be too few, so devices at exactly this time have those
     * that are too many. The last device gives first. Lines clamped at 0 may all be at this time
     * with more than one sample each. */
    while (over > 0)
        for (size_t k = devices; k-- > 0 && over > 0;)
            if (counts[k] > 0 && yki_line_seconds(&lines[k], counts[k]) >= seconds) {
                int64_t less = seconds > 0 ? 1 : YKI_MIN(over, counts[k]);

                counts[k] -= less;
                over -= less;
            }
    return seconds;
}
