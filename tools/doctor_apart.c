/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_apart.c - runs what may crash or hang in a child process, with a time limit.
 *
 * Results come back through shared memory, which outlives a crash. What the child
 * prints goes to a file in memory: drivers that end the process say why on standard
 * error, and the last line of it tells the reason. The child leads a process group of
 * its own, so the compilers that a driver starts are killed with it; and it is killed
 * if this process dies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "options.h"

/* The child's exit status after its work. A driver may call exit(0) before that. */
enum { DONE = 113 };
static const double PAUSE = 0.005, PATIENCE = 5; /* seconds between looks, and after a kill */

void *
yki_tool_doctor_share(yki_tool_checkup *doctor, size_t size)
{
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared != MAP_FAILED)
        return shared;
    yki_tool_doctor_add(doctor, DOCTOR_PROBLEM, "end other programs", "this is not checked: %s",
                        strerror(errno));
    return NULL;
}

void
yki_tool_doctor_forget(void *shared, size_t size)
{
    if (shared)
        munmap(shared, size);
}

static void
be_child(pid_t parent, int output, void (*work)(void *shared), void *shared)
{
    const struct rlimit no_core = {0, 0};

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    work(shared);
    _exit(DONE);
}

/* Waits until the child ends, but leaves it unreaped: its group keeps its number. */
static bool
ends_within(pid_t child, double seconds)
{
    const struct timespec pause = {0, (long)(PAUSE * 1e9)};
    const double end = yki_tool_now() + seconds;

    while (true) {
        siginfo_t about = {0};

        if (waitid(P_PID, (id_t)child, &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            about.si_pid == child)
            return true;
        if (yki_tool_now() > end)
            return false;
        nanosleep(&pause, NULL);
    }
}

/* Appends the last line of what the child printed, as ": LINE". */
static void
add_last_line(int output, char why[DOCTOR_WHY])
{
    char tail[400];
    off_t size = lseek(output, 0, SEEK_END), from = size - (off_t)sizeof tail + 1;
    ssize_t got = size > 0 ? pread(output, tail, sizeof tail - 1, from > 0 ? from : 0) : 0;
    size_t used = strlen(why);
    const char *line;

    while (got > 0 && (tail[got - 1] == '\n' || tail[got - 1] == ' '))
        got--;
    if (got <= 0)
        return;
    tail[got] = '\0';
    line = strrchr(tail, '\n');
    snprintf(why + used, DOCTOR_WHY - used, ": %s", line ? line + 1 : tail);
}

bool
yki_tool_doctor_apart(unsigned seconds, void (*work)(void *shared), void *shared,
                      char why[DOCTOR_WHY])
{
    int output = memfd_create("yoke-doctor", MFD_CLOEXEC), status = 0;
    pid_t parent = getpid(), child;
    bool ended;

    if (output < 0)
        output = open("/dev/null", O_WRONLY | O_CLOEXEC);
    why[0] = '\0';
    fflush(NULL);
    child = fork();
    if (child == 0)
        be_child(parent, output, work, shared);
    if (child < 0) {
        snprintf(why, DOCTOR_WHY, "could not be tried: %s", strerror(errno));
    } else {
        setpgid(child, child);
        ended = ends_within(child, seconds);
        kill(-child, SIGKILL);
        if (ended || ends_within(child, PATIENCE))
            waitpid(child, &status, 0);
        if (!ended) {
            snprintf(why, DOCTOR_WHY, "did not end within %u s", seconds);
        } else if (WIFSIGNALED(status)) {
            snprintf(why, DOCTOR_WHY, "was ended by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        } else if (WEXITSTATUS(status) != DONE) {
            snprintf(why, DOCTOR_WHY, "was ended with status %d by what it called",
                     WEXITSTATUS(status));
        }
        if (why[0])
            add_last_line(output, why);
    }
    if (output >= 0)
        close(output);
    return !why[0];
}
