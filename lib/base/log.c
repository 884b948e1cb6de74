/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - hands lines to the application's callback, or drops them if there is none.
 *
 * The lock is held during the callback. So it runs in one thread at a time, and
 * yoke_log_set() returns only when the old callback does not run any more.
 */
#include <stdio.h>

#include "base/base.h"

enum { LINE_SIZE = 2048 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static yoke_log_callback log_callback;
static void *log_user;
/* It is read without the lock, because most lines are not wanted and should cost nothing. */
static atomic_int log_limit = -1;

void
yoke_log_set(yoke_log_callback callback, void *user, yoke_log_level level)
{
    pthread_mutex_lock(&lock);
    log_callback = callback;
    log_user = user;
    atomic_store(&log_limit, callback ? (int)level : -1);
    pthread_mutex_unlock(&lock);
}

void
yki_log(yoke_log_level level, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;

    if ((int)level > atomic_load(&log_limit))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (log_callback)
        log_callback(log_user, level, line);
    pthread_mutex_unlock(&lock);
}

void
yki_tell(const yki_teller *to, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    to->line(to->user, line);
}

void
yoke_log_write(yoke_log_level level, const char *line)
{
    if (line)
        yki_log(level, "%s", line);
}
