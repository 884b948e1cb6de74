/* SPDX-License-Identifier: Apache-2.0
 *
 * check_terminal.c - what `yoke train` draws on a terminal, which is a pseudo-terminal here: one
 * line for each epoch, not drawn too often, colours unless NO_COLOR is set; plain lines where there
 * is no terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"
#include "support/scratch.h"
#include "support/support.h"

enum { EPOCHS = 12, SIZE = 1 << 20 };

static const char *const training[] = {"train",      "--model=tiny", "",  "--devices=cpu:0",
                                       "--batch=64", "--epochs=12",  NULL};

/* What came, and how long it took. */
typedef struct screen {
    char text[SIZE];
    size_t size;
    double seconds;
    int status;
} screen;

static screen shown;

static const char *const *
arguments(void)
{
    static const char *list[COMMAND_ARGUMENTS];

    memcpy(list, training, sizeof training);
    list[2] = command_data();
    return list;
}

/* Standard error of the command is the terminal. */
static pid_t
start_on(int terminal, const char *term, bool no_color)
{
    pid_t process = fork();

    ck_assert_int_ge(process, 0);
    if (process)
        return process;
    setenv("TERM", term, 1);
    if (no_color)
        setenv("NO_COLOR", "1", 1);
    else
        unsetenv("NO_COLOR");
    if (dup2(terminal, STDERR_FILENO) < 0 || dup2(open("/dev/null", O_RDWR), STDOUT_FILENO) < 0)
        _exit(126);
    command_become(arguments());
    _exit(126);
}

static void
collect(int from)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    ssize_t got = 1;

    shown.size = 0;
    while (got > 0 && shown.size + 1 < SIZE && poll(&ready, 1, 100000) > 0) {
        got = read(from, shown.text + shown.size, SIZE - 1 - shown.size);
        shown.size += got > 0 ? (size_t)got : 0;
    }
    shown.text[shown.size] = '\0';
}

static void
run_on_terminal(const char *term, bool no_color)
{
    struct winsize size = {.ws_col = 120, .ws_row = 24};
    int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
    double begun = command_now();
    pid_t process;

    ck_assert_msg(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0,
                  "a pseudo-terminal: %s", strerror(errno));
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(slave, 0);
    ck_assert_int_eq(ioctl(slave, TIOCSWINSZ, &size), 0);
    process = start_on(slave, term, no_color);
    close(slave);
    collect(master);
    shown.status = command_wait(process);
    shown.seconds = command_now() - begun;
    close(master);
    ck_assert_msg(shown.status == 0, "exit status %d: %s", shown.status, shown.text);
}

static size_t
count(const char *part)
{
    size_t found = 0;

    for (const char *at = shown.text; (at = strstr(at, part)) != NULL; at += strlen(part))
        found++;
    return found;
}

/* What follows the notes on compiling and measuring, which a terminal gets before the first epoch.
 */
static const char *
after_notes(void)
{
    static const char note[] = "yoke: train: note: ";
    const char *at = shown.text;

    while (!strncmp(at, note, strlen(note)) && strchr(at, '\n'))
        at = strchr(at, '\n') + 1;
    return at;
}

/* Each epoch has one line that stays, in order, and none is of anything else. */
static void
check_epochs(void)
{
    const char *at = after_notes();

    memmove(shown.text, at, strlen(at) + 1);
    at = shown.text;
    ck_assert_msg(count("\n") == EPOCHS, "%zu lines: %s", count("\n"), shown.text);
    for (int e = 1; e <= EPOCHS; e++) {
        const char *end = strchr(at, '\n'), *last = end;
        char name[40];

        if (last > at && last[-1] == '\r') /* the terminal's own: it makes \r\n of \n */
            last--;
        while (last > at && last[-1] != '\r' && last[-1] != '\n')
            last--;
        snprintf(name, sizeof name, "epoch %2d/%d", e, EPOCHS);
        ck_assert_msg(memmem(last, (size_t)(end - last), name, strlen(name)) != NULL,
                      "no \"%s\" in \"%.*s\"", name, (int)(end - last), last);
        ck_assert(memmem(last, (size_t)(end - last), "test accuracy", 13) != NULL);
        at = end + 1;
    }
}

START_TEST(on_a_terminal)
{
    size_t drawn;

    if (!command_usable())
        TEST_SKIP("no PoCL");
    run_on_terminal("xterm", _i);
    check_epochs();
    /* The bar as it fills: all that was drawn but for the lines that stayed. */
    drawn = count("\033[K") - EPOCHS;
    ck_assert_msg(drawn >= 1, "nothing was drawn in between");
    ck_assert_msg((double)drawn <= 10 * shown.seconds + 1, "%zu updates in %.2f s", drawn,
                  shown.seconds);
    ck_assert_msg(count("==") + count("--") > 0, "no bar: %s", shown.text);
    ck_assert_msg(_i ? count("\033[") == count("\033[K") : count("\033[1m") > 0, "colours: %s",
                  shown.text);
}
END_TEST

/* A terminal that can do nothing, and a file. */
START_TEST(elsewhere)
{
    size_t size;
    char *text;

    if (!command_usable())
        TEST_SKIP("no PoCL");
    if (_i == 0) {
        run_on_terminal("dumb", false);
    } else {
        ck_assert_int_eq(
            command_wait(command_start(arguments(), "/dev/null", scratch_path("errors"))), 0);
        text = scratch_read(scratch_path("errors"), &size);
        snprintf(shown.text, SIZE, "%s", text);
        free(text);
        ck_assert_uint_eq(count("\r"), 0);
    }
    check_epochs();
    ck_assert_uint_eq(count("\033"), 0);
    ck_assert_uint_eq(count("["), 0);
}
END_TEST

/* mpirun may put what others say between two writes. A pipe in packet mode keeps them apart. */
START_TEST(a_message_is_one_write)
{
    const char *wrong[] = {"train", "--model=no-such-model", command_data(), NULL};
    char first[4096];
    pid_t process;
    ssize_t got;
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_DIRECT), 0);
    process = fork();
    ck_assert_int_ge(process, 0);
    if (process == 0) {
        if (dup2(ends[1], STDERR_FILENO) >= 0)
            command_become(wrong);
        _exit(126);
    }
    close(ends[1]);
    got = read(ends[0], first, sizeof first - 1);
    ck_assert_int_gt(got, 0);
    first[got] = '\0';
    ck_assert_msg(strncmp(first, "yoke: train: ", 13) == 0 && first[got - 1] == '\n' &&
                      strstr(first, "no-such-model") != NULL,
                  "the first write is \"%s\"", first);
    close(ends[0]);
    ck_assert_int_ne(command_wait(process), 0);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("terminal");
    TCase *tcase = test_case(suite, "terminal");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tcase, on_a_terminal, 0, 2);
    tcase_add_loop_test(tcase, elsewhere, 0, 2);
    tcase_add_test(tcase, a_message_is_one_write);
    return suite;
}
