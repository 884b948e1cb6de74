/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - runs a test program's suite and speaks TAP, one line per test.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { TIMEOUT_SECONDS = 60 };

/* ---- one process for each test, or one for all ---- */

unsigned test_number;
bool test_shares_process;

/* Check ends only processes of their own when they hang. */
static void
begin_test(void)
{
    const char *times = getenv("CK_TIMEOUT_MULTIPLIER");

    test_number++;
    if (test_shares_process)
        alarm(TIMEOUT_SECONDS * (unsigned)(times && atoi(times) > 0 ? atoi(times) : 1));
}

TCase *
test_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, TIMEOUT_SECONDS);
    tcase_add_checked_fixture(tcase, begin_test, NULL);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static bool
is_set(const char *name)
{
    const char *value = getenv(name);

    return value && strcmp(value, "1") == 0;
}

bool
test_is_thorough(void)
{
    return is_set("YOKE_TEST_THOROUGH");
}

bool
test_in_short(void)
{
    return is_set("YOKE_MATRIX_SHORT");
}

char test_lines[8192];

void
test_forget_lines(void)
{
    test_lines[0] = '\0';
}

void
test_keep_line(void *user, const char *line)
{
    size_t used = strlen(test_lines);

    (void)user;
    ck_assert_msg(used + strlen(line) + 2 <= sizeof test_lines, "more lines than can be kept");
    snprintf(test_lines + used, sizeof test_lines - used, "%s\n", line);
}

void
test_drop_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

const char *
test_selector(void)
{
    const char *selector = getenv("YOKE_TEST_DEVICES");

    return selector && *selector ? selector : "all";
}

/* ---- skips: Check has none, so tests note them and a filter marks the lines of its report ---- */

typedef struct skip {
    char test[96];
    char reason[160];
} skip;

typedef struct skip_table {
    int count;
    skip skips[128];
} skip_table;

static skip_table *table; /* shared with the tests, which are processes of their own */

static void
note(const char *function, const char *reason)
{
    size_t length = strlen(function);
    skip *entry = &table->skips[table->count];

    if (table->count == (int)(sizeof table->skips / sizeof table->skips[0]))
        ck_abort_msg("too many skipped tests: %s", reason);
    if (length > 3 && strcmp(function + length - 3, "_fn") == 0)
        length -= 3; /* what START_TEST adds */
    snprintf(entry->test, sizeof entry->test, "%.*s", (int)length, function);
    snprintf(entry->reason, sizeof entry->reason, "%s", reason);
    table->count++;
}

bool
test_note_skip(const char *function, const char *format, ...)
{
    const char *all = getenv("YOKE_REQUIRE_ALL");
    char reason[sizeof table->skips[0].reason];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (all && strcmp(all, "1") == 0)
        ck_abort_msg("%s, and YOKE_REQUIRE_ALL=1 asks for everything", reason);
    note(function, reason);
    return true;
}

bool
test_note_unfit(const char *function, const char *format, ...)
{
    char reason[sizeof table->skips[0].reason];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    note(function, reason);
    return true;
}

/* "ok 3 - check_link.c:links:name: Passed" of a noted test becomes "ok 3 - ... # SKIP reason". */
static void
filter_lines(FILE *in)
{
    char line[4096];

    while (fgets(line, sizeof line, in)) {
        for (int i = 0; strncmp(line, "ok ", 3) == 0 && i < table->count; i++) {
            char name[sizeof table->skips[0].test + 4];
            char *found;

            snprintf(name, sizeof name, ":%s:", table->skips[i].test);
            found = strstr(line, name);
            if (found) {
                snprintf(found + strlen(name), sizeof line - (size_t)(found + strlen(name) - line),
                         " # SKIP %s\n", table->skips[i].reason);
                break;
            }
        }
        fputs(line, stdout);
        fflush(stdout);
    }
}

/* A process between our standard output and the real one; started before any test. */
static pid_t
start_filter(void)
{
    int ends[2];
    pid_t child;

    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED || pipe(ends))
        return -1;
    child = fork();
    if (child == 0) {
        FILE *in = fdopen(ends[0], "r");

        close(ends[1]);
        if (in)
            filter_lines(in);
        _exit(0);
    }
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    return child;
}

int
main(void)
{
    pid_t filter = start_filter();
    SRunner *runner;
    int failed;

    if (filter < 0) {
        perror("starting the filter of the test report");
        return EXIT_FAILURE;
    }
    runner = srunner_create(test_suite());
    if (test_shares_process && !getenv("CK_FORK"))
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    fclose(stdout);
    close(STDOUT_FILENO);
    waitpid(filter, NULL, 0);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
