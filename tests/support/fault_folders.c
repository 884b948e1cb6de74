/* SPDX-License-Identifier: Apache-2.0
 *
 * fault_folders.c - where the fault loops keep yoke's compiled kernels.
 *
 * In memory where there is such a file system. The drivers' own kernels are where those of all
 * tests are: compiling takes long, and no loop is about it.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/support.h"

static char folder[64];

void
fault_make_folder(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(folder, sizeof folder, "%s/yoke-faults-XXXXXX", base);
    ck_assert(mkdtemp(folder) != NULL);
}

static int
remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

void
fault_remove_folder(void)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *
fault_cache_folder(void)
{
    return folder;
}
