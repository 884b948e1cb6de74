/* SPDX-License-Identifier: Apache-2.0
 *
 * compilers.c - starts processes that compile a plan's kernels beside this one, and ends them.
 *
 * They run yoke-compile (compile.c), which is installed beside the library's other parts. It gets
 * the graph, the device and the options in a piece of shared memory as its standard input, and
 * makes the same tasks of them. What it compiles comes here through the caches of yoke and of the
 * driver.
 *
 * There is one for each core that this process may use but one, and one at most for each GiB of
 * memory that is available. Only processors are helped: of their drivers PoCL compiles one kernel
 * at a time in a process. One process of a host is helped at a time, because others, such as the
 * ranks of a job, mostly wait for the same kernels. Where anything is missing - the program, a
 * cache, a core, a graph that can be written - nothing is started, and that is no error.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "replica/compilers.h"

#include "config.h"

enum { MOST = 7 };
/* Bytes that one may need. */
#define MEMORY ((uint64_t)1 << 30)

double yki_compilers_patience = 30;

extern char **environ;
extern const char yki_compile_program[]; /* its path; the build writes it */

struct yki_compilers {
    yoke_device *device;
    yoke_graph *graph;
    yki_rehearsal rehearsal;
    int lock;
    yki_compile_job *job; /* NULL: none are at work */
    size_t size;          /* bytes of the job */
    pid_t processes[MOST];
    size_t count;
};

/* ---- the job ---- */

static json_t *
describe_options(const yki_plan_options *o)
{
    json_t *object =
        json_pack("{s:I, s:b, s:i, s:s*}", "batch", (json_int_t)o->max.batch, "training",
                  o->training, "level", (int)o->level, "precision", o->precision);

#define X(kind, name) json_object_set_new(object, #name, json_integer((json_int_t)o->name));
    YKI_COMPILE_OPTIONS(X)
#undef X
    return object;
}

/* Returns the text of a job, which free() frees, or NULL. */
static char *
describe(const yki_compilers *c, const yki_plan_options *o)
{
    const char *cache = yki_context_cache_dir(yki_device_context(c->device));
    yoke_device_info info;
    char *graph = NULL, *text;
    json_t *job;

    if (yoke_device_get_info(c->device, &info) != YOKE_OK ||
        yoke_graph_to_json(c->graph, &graph) != YOKE_OK)
        return NULL;
    job = json_pack("{s:s, s:s, s:s, s:o*}", "graph", graph, "device", info.parent, "cache", cache,
                    "options", describe_options(o));
    yoke_free(graph);
    text = job ? json_dumps(job, JSON_COMPACT) : NULL;
    json_decref(job);
    return text;
}

/* Makes the job in shared memory. Returns its descriptor, or -1. */
static int
share(yki_compilers *c, const char *text)
{
    size_t length = strlen(text) + 1;
    int fd = memfd_create("yoke-compile", MFD_CLOEXEC);

    c->size = sizeof *c->job + length;
    if (fd < 0)
        return -1;
    c->job = ftruncate(fd, (off_t)c->size)
                 ? MAP_FAILED
                 : mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c->job == MAP_FAILED) {
        c->job = NULL;
        close(fd);
        return -1;
    }
    memcpy(c->job->text, text, length);
    return fd;
}

/* ---- processes ---- */

/* The program, or NULL. */
static const char *
find_program(void)
{
    const char *path = yki_secure_env("YOKE_COMPILE");

    if (!path)
        path = yki_compile_program;
    return access(path, X_OK) ? NULL : path;
}

/* Returns the number that follows `name` in a file of the kernel's, else `otherwise`. */
static uint64_t
read_number(const char *path, const char *name, uint64_t otherwise)
{
    FILE *file = fopen(path, "re");
    char line[256];
    uint64_t number;

    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 &&
            sscanf(line + strlen(name), "%" SCNu64, &number) == 1) {
            otherwise = number;
            break;
        }
    if (file)
        fclose(file);
    return otherwise;
}

size_t
yki_compilers_wanted(void)
{
    uint64_t memory = read_number("/proc/meminfo", "MemAvailable:", 0) * 1024;
    uint64_t share = read_number("/sys/fs/cgroup/cpu.max", "", UINT64_MAX); /* us in 0.1 s */
    cpu_set_t cores;
    uint64_t count;

    memory = YKI_MIN(memory, read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX));
    if (sched_getaffinity(0, sizeof cores, &cores))
        return 0;
    count = YKI_MIN((uint64_t)CPU_COUNT(&cores), share / 100000);
    return count < 2 ? 0 : (size_t)YKI_MIN(YKI_MIN(count - 1, memory / MEMORY), (uint64_t)MOST);
}

/* Starts processes that have the job as their input and say nothing. */
static void
start(yki_compilers *c, const char *program, int job, size_t most)
{
    char *const arguments[] = {(char *)(uintptr_t)program, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&files))
        return;
    if (posix_spawnattr_init(&attributes)) {
        posix_spawn_file_actions_destroy(&files);
        return;
    }
    if (!posix_spawn_file_actions_adddup2(&files, job, 0) &&
        !posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) &&
        !posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) &&
#ifdef HAVE_POSIX_SPAWN_FILE_ACTIONS_ADDCLOSEFROM_NP
        !posix_spawn_file_actions_addclosefrom_np(&files, 3) && /* the application's */
#endif
        !posix_spawnattr_setsigmask(&attributes, &none) &&
        !posix_spawnattr_setsigdefault(&attributes, &all) &&
        !posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        while (c->count < most && !posix_spawn(&c->processes[c->count], program, &files,
                                               &attributes, arguments, environ))
            c->count++;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
}

static void
stop(yki_compilers *c)
{
    if (c->job)
        munmap(c->job, c->size);
    c->job = NULL;
    if (c->lock >= 0)
        yki_context_drop_lock(c->lock);
    c->lock = -1;
}

static bool
may(void *user, const yki_plan_options *o)
{
    const yki_compilers *c = user;

    return o->training && yki_device_get_traits(c->device)->type == YOKE_DEVICE_CPU &&
           yki_context_cache_dir(yki_device_context(c->device)) && find_program() &&
           yki_compilers_wanted() > 0;
}

static yki_claims *
begin(void *user, const yki_plan_options *o, const yki_claims *known)
{
    yki_compilers *c = user;
    const char *program = find_program();
    char *text;
    int job;

    c->lock = yki_context_take_lock(yki_device_context(c->device));
    text = c->lock >= 0 ? describe(c, o) : NULL;
    job = text ? share(c, text) : -1;
    free(text);
    if (job >= 0) {
        memcpy(&c->job->claims, known, sizeof *known);
        c->job->parent = getpid();
        if (program)
            start(c, program, job, yki_compilers_wanted());
        close(job);
    }
    if (c->count == 0) {
        stop(c);
        return NULL;
    }
    yki_log(YOKE_LOG_INFO, "%s: kernels are compiled in %zu more process%s",
            yki_device_id(c->device), c->count, c->count == 1 ? "" : "es");
    return &c->job->claims;
}

/* Returns whether a process has ended. `late`: it is killed if it has not. The application may have
 * waited for it before. */
static bool
has_ended(pid_t process, bool late)
{
    pid_t ended = waitpid(process, NULL, WNOHANG);

    if (ended == 0 && late) {
        kill(process, SIGKILL);
        while ((ended = waitpid(process, NULL, 0)) < 0 && errno == EINTR)
            continue;
    }
    return ended != 0;
}

/* They end by themselves. One that hangs is killed: then its kernels are compiled here. */
static void
end(void *user)
{
    const struct timespec pause = {0, 5000000};
    yki_compilers *c = user;
    double deadline = yki_now() + yki_compilers_patience;

    while (c->count) {
        const bool late = yki_now() > deadline;
        size_t left = 0;

        for (size_t i = 0; i < c->count; i++)
            if (!has_ended(c->processes[i], late))
                c->processes[left++] = c->processes[i];
        c->count = left;
        if (left)
            nanosleep(&pause, NULL);
    }
    stop(c);
}

/* ---- a replica's ---- */

yoke_status
yki_compilers_create(yoke_device *device, yoke_graph *graph, yki_compilers **out)
{
    yki_compilers *c = yki_alloc(1, sizeof *c, "what compiles kernels");

    if (!c)
        return YOKE_ERROR_OUT_OF_MEMORY;
    c->device = device;
    c->graph = graph;
    c->rehearsal = (yki_rehearsal){.may = may, .begin = begin, .end = end, .user = c};
    c->lock = -1;
    *out = c;
    return YOKE_OK;
}

const yki_rehearsal *
yki_compilers_rehearsal(const yki_compilers *c)
{
    return c ? &c->rehearsal : NULL;
}

void
yki_compilers_destroy(yki_compilers *c)
{
    yki_free(c);
}
