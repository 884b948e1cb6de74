/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c - the table of statuses, and the line of detail that each thread keeps.
 *
 * The detail is a fixed thread-local array, because reporting "out of memory" must
 * not need memory.
 */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#include "config.h"

/* It is long enough for the end of a compiler's log, which is where the error is. */
enum { DETAIL_SIZE = 8192 };

static _Thread_local char detail[DETAIL_SIZE];

const char *
yoke_status_name(yoke_status status)
{
    switch (status) {
#define CASE(code, name, message)                                                                  \
    case code:                                                                                     \
        return "YOKE_" #name;
        YOKE_STATUS_MAP(CASE)
#undef CASE
    case YOKE_STATUS_RESERVED:
        break;
    }
    return "YOKE_ERROR_UNKNOWN";
}

const char *
yoke_status_string(yoke_status status)
{
    switch (status) {
#define CASE(code, name, message)                                                                  \
    case code:                                                                                     \
        return message;
        YOKE_STATUS_MAP(CASE)
#undef CASE
    case YOKE_STATUS_RESERVED:
        break;
    }
    return "unknown status";
}

const char *
yoke_last_error(void)
{
    return detail;
}

const char *
yoke_version(void)
{
    return PACKAGE_VERSION;
}

yoke_status
yki_fail(yoke_status status, const char *format, ...)
{
    /* The line is built in a second buffer, because an argument may be the present detail. */
    char line[DETAIL_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    memcpy(detail, line, sizeof detail);
    return status;
}

yoke_status
yki_fail_bug(const char *format, ...)
{
    char line[DETAIL_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return yki_fail(YOKE_ERROR_INTERNAL, "%s; this is a bug of yoke, please report it", line);
}

yoke_status
yki_fail_in(yoke_status status, const char *prefix)
{
    return yki_fail(status, "%s: %s", prefix, detail);
}

yoke_status
yki_fail_range(yoke_status status, const char *what, int64_t value, int64_t low, int64_t high)
{
    if (high == INT64_MAX)
        return yki_fail(status, "%s is %" PRId64 "; must be at least %" PRId64, what, value, low);
    return yki_fail(status, "%s is %" PRId64 "; must be between %" PRId64 " and %" PRId64, what,
                    value, low, high);
}

yoke_status
yki_fail_range_real(yoke_status status, const char *what, double value, double low, double high)
{
    /* "between 0 and 3.40282e+38" would only mean that the value is finite. */
    if (high >= FLT_MAX)
        return yki_fail(status, "%s is %g; must be at least %g%s", what, value, low,
                        value <= high ? "" : " and finite");
    return yki_fail(status, "%s is %g; must be between %g and %g", what, value, low, high);
}

yoke_status
yki_fail_range_below(yoke_status status, const char *what, double value, double low, double high)
{
    return yki_fail(status, "%s is %g; must be at least %g and below %g", what, value, low, high);
}

yoke_status
yki_check_given(const char *function, const yki_argument *arguments)
{
    for (; arguments->name; arguments++)
        if (!arguments->value)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function,
                            arguments->name);
    return YOKE_OK;
}

void
yki_set_detail(const char *line)
{
    snprintf(detail, sizeof detail, "%s", line);
}

yoke_status
yoke_fail(yoke_status status, const char *sentence)
{
    if (status == YOKE_OK)
        return YOKE_OK;
    return yki_fail(status, "%s", sentence ? sentence : "");
}
