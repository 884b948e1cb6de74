/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - runs the yoke command as a process of its own, on PoCL alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "support/support.h"

#define POCL "/etc/OpenCL/vendors/pocl.icd"

static const char *
folder(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : ".";
}

bool
command_usable(void)
{
    return access(POCL, R_OK) == 0;
}

const char *
command_data(void)
{
    static char text[1024];

    snprintf(text, sizeof text, "--data=%s/examples/data", folder("YOKE_SRCDIR"));
    return text;
}

void
command_become(const char *const *arguments)
{
    char path[1024], *list[COMMAND_ARGUMENTS] = {path};

    snprintf(path, sizeof path, "%s/tools/yoke", folder("YOKE_BUILDDIR"));
    for (size_t i = 0; arguments[i] && i + 2 < COMMAND_ARGUMENTS; i++)
        list[i + 1] = (char *)arguments[i];
    setenv("OCL_ICD_VENDORS", POCL, 1);
    unsetenv("OCL_ICD_FILENAMES");
    unsetenv("POCL_DEVICES");
    execv(path, list);
    perror(path);
    _exit(126);
}

static void
redirect(const char *path, int to)
{
    int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0666) : to;

    if (fd < 0 || dup2(fd, to) < 0) {
        perror(path);
        _exit(126);
    }
}

pid_t
command_start(const char *const *arguments, const char *output, const char *errors)
{
    pid_t process = fork();

    ck_assert_msg(process >= 0, "fork: %s", strerror(errno));
    if (process == 0) {
        redirect("/dev/null", STDIN_FILENO);
        redirect(output, STDOUT_FILENO);
        redirect(errors, STDERR_FILENO);
        command_become(arguments);
    }
    return process;
}

int
command_wait(pid_t process)
{
    int status;

    while (waitpid(process, &status, 0) < 0)
        ck_assert_int_eq(errno, EINTR);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

bool
command_runs(pid_t process)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

double
command_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void
command_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}
