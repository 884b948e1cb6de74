/* SPDX-License-Identifier: Apache-2.0
 *
 * fault_folders.c - where the fault loops keep compiled kernels.
 *
 * In memory where there is such a file system: PoCL syncs each file that it writes.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/support.h"

static char folder[64], driver_folder[80], cache_folder[80];

void
fault_make_folders(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(folder, sizeof folder, "%s/yoke-faults-XXXXXX", base);
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(driver_folder, sizeof driver_folder, "%s/driver", folder);
    snprintf(cache_folder, sizeof cache_folder, "%s/cache", folder);
    ck_assert(mkdir(driver_folder, 0700) == 0);
    ck_assert(mkdir(cache_folder, 0700) == 0);
    setenv("POCL_CACHE_DIR", driver_folder, 1);
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
fault_remove_folders(void)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *
fault_cache_folder(void)
{
    return cache_folder;
}
