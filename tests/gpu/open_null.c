/* SPDX-License-Identifier: Apache-2.0
 *
 * open_null.c - makes a folder of drivers that has the null driver alone, and names it to the
 * loader.
 */
#include "gpu/open_null.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"

const null_driver *
null_open(const char *devices)
{
    const char *build = getenv("YOKE_BUILDDIR");
    const null_driver *(*get)(void);
    char driver[4096], path[4096];
    void *module, *symbol;
    FILE *file;

    snprintf(driver, sizeof driver, "%s/tests/gpu/.libs/nulldriver.so",
             build && *build ? build : ".");
    snprintf(path, sizeof path, "%s", scratch_path("null.icd"));
    file = fopen(path, "w");
    ck_assert_msg(file != NULL, "cannot write %s", path);
    fprintf(file, "%s\n", driver);
    fclose(file);
    setenv("OCL_ICD_VENDORS", path, 1);
    setenv("YOKE_NULL_DEVICES", devices, 1);
    unsetenv("OPENCL_LAYERS");
    module = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
    symbol = module ? dlsym(module, NULL_DRIVER_SYMBOL) : NULL;
    ck_assert_msg(symbol != NULL, "no null driver: %s", dlerror());
    memcpy(&get, &symbol, sizeof get);
    return get();
}
