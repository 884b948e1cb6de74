/* SPDX-License-Identifier: Apache-2.0
 *
 * devices.c - set-ups of devices for tests; see devices.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/devices.h"

#define POCL         "Portable Computing Language"
#define RUSTICL      "rusticl"
#define OCLGRIND_ICD "/usr/lib/oclgrind/liboclgrind-rt-icd.so"

typedef struct setup_row {
    const char *platforms[2];     /* of which the first device is taken */
    const char *suffix;           /* of each id: how it is split */
    const char *variable, *value; /* set before OpenCL starts */
} setup_row;

static const setup_row setups[] = {
    [TEST_AS_IS] = {{NULL, NULL}, "", NULL, NULL},
    [TEST_POCL_HALVES] = {{POCL, NULL}, "/2", NULL, NULL},
    [TEST_POCL_UNEVEN] = {{POCL, NULL}, "/1+3", "POCL_MAX_PTHREAD_COUNT", "4"},
    [TEST_POCL_QUARTERS] = {{POCL, NULL}, "/4", "POCL_MAX_PTHREAD_COUNT", "4"},
    [TEST_POCL_ROOTS] = {{POCL, POCL}, "", "POCL_DEVICES", "pthread pthread"},
    [TEST_POCL_BESIDE] = {{POCL, POCL}, "", NULL, NULL},
    [TEST_RUSTICL_SLICES] = {{RUSTICL, NULL}, "/2", "RUSTICL_ENABLE", "llvmpipe"},
    [TEST_POCL_AND_RUSTICL] = {{POCL, RUSTICL}, "", "RUSTICL_ENABLE", "llvmpipe"},
    [TEST_OCLGRIND_SLICES] = {{"Oclgrind", NULL}, "/2", "OCL_ICD_VENDORS", OCLGRIND_ICD},
};

bool
test_in_matrix(void)
{
    return getenv("YOKE_TEST_DEVICES") != NULL;
}

/* The id of the `nth` device of a platform; false if there is none. */
static bool
find(yoke_context *context, const char *platform, int nth, char id[64])
{
    for (size_t i = 0; i < yoke_context_device_count(context); i++) {
        yoke_device_info info;

        ASSERT_OK(yoke_device_get_info(yoke_context_get_device(context, i), &info));
        if (strstr(info.platform, platform) && nth-- == 0) {
            memcpy(id, info.id, sizeof info.id);
            return true;
        }
    }
    return false;
}

/* The selector of a set-up, from the ids its devices have here. */
static bool
compose(test_devices *devices, const setup_row *row, char *selector, size_t size)
{
    selector[0] = '\0';
    for (int i = 0; i < 2 && row->platforms[i]; i++) {
        int nth = i == 1 && strcmp(row->platforms[0], row->platforms[1]) == 0;
        size_t used = strlen(selector);
        char id[64];

        if (!find(devices->context, row->platforms[i], nth, id)) {
            snprintf(devices->missing, sizeof devices->missing, "no %sdevice of \"%s\" here",
                     nth ? "second " : "", row->platforms[i]);
            return false;
        }
        snprintf(selector + used, size - used, "%s%s%s", used ? "," : "", id, row->suffix);
    }
    return true;
}

bool
test_put_on_face(void)
{
    static const char *const settings[][2] = {{"POCL_DEVICES", "pthread pthread"},
                                              {"YOKE_FACE_BESIDE", "1"},
                                              {"YOKE_FACE_INTEGRATED", "1"},
                                              {"YOKE_FACE_GROUP", "64"},
                                              {"POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable"}};
    const char *build = getenv("YOKE_BUILDDIR"), *above = getenv("OPENCL_LAYERS");
    const char *cache = getenv("XDG_CACHE_HOME");
    char face[4096], text[8192];

    snprintf(face, sizeof face, "%s/tests/gpu/.libs/face.so", build && *build ? build : ".");
    if (access(face, R_OK) != 0)
        return false;
    snprintf(text, sizeof text, "%s%s%s", face, above && *above ? ":" : "", above ? above : "");
    setenv("OPENCL_LAYERS", text, 1);
    for (size_t i = 0; i < YKI_COUNT(settings); i++)
        setenv(settings[i][0], settings[i][1], 1);
    if (cache && *cache) {
        snprintf(text, sizeof text, "%s/face", cache);
        mkdir(cache, 0700);
        mkdir(text, 0700);
        setenv("XDG_CACHE_HOME", text, 1);
    }
    return true;
}

bool
test_devices_find(test_setup setup, test_devices *devices)
{
    const setup_row *row = &setups[setup];
    yoke_status status;

    memset(devices, 0, sizeof *devices);
    if (setup == TEST_POCL_BESIDE && !test_put_on_face()) {
        snprintf(devices->missing, sizeof devices->missing, "no GPU face here (tests/gpu/face.c)");
        return false;
    }
    if (row->variable)
        setenv(row->variable, row->value, 1);
    status = yoke_context_create(NULL, &devices->context);
    if (status == YOKE_ERROR_NO_OPENCL && setup != TEST_AS_IS) {
        snprintf(devices->missing, sizeof devices->missing, "no OpenCL here");
        return false;
    }
    ASSERT_OK(status);
    if (setup == TEST_AS_IS) {
        snprintf(devices->selector, sizeof devices->selector, "%s", test_selector());
    } else if (!compose(devices, row, devices->selector, sizeof devices->selector)) {
        yoke_context_destroy(devices->context);
        return false;
    }
    return true;
}

bool
test_devices_open(test_setup setup, test_devices *devices)
{
    if (!test_devices_find(setup, devices))
        return false;
    ASSERT_OK(
        yoke_selection_create(devices->context, devices->selector, NULL, &devices->selection));
    devices->count = yoke_selection_count(devices->selection);
    ck_assert_uint_gt(devices->count, 0);
    devices->count = YKI_MIN(devices->count, YKI_COUNT(devices->device));
    for (size_t i = 0; i < devices->count; i++) {
        yoke_device_info info;

        devices->device[i] = yoke_selection_get(devices->selection, i);
        ASSERT_OK(yoke_device_get_info(devices->device[i], &info));
        devices->slow = devices->slow || strstr(info.platform, "Oclgrind");
    }
    return true;
}

void
test_devices_hide_host_memory(test_devices *devices)
{
    for (size_t i = 0; i < devices->count; i++) {
        yki_device_traits *traits = (yki_device_traits *)yki_device_get_traits(devices->device[i]);

        traits->host_memory = false;
        traits->direct_host = false;
    }
}

void
test_devices_close(test_devices *devices)
{
    yoke_selection_destroy(devices->selection);
    yoke_context_destroy(devices->context);
}

static struct {
    yoke_context *context;
    yoke_selection *selection;
} selected;

yoke_selection *
test_selected(void)
{
    if (!selected.selection) {
        ASSERT_OK(yoke_context_create(NULL, &selected.context));
        ASSERT_OK(
            yoke_selection_create(selected.context, test_selector(), NULL, &selected.selection));
    }
    return selected.selection;
}

void
test_selected_leave(void)
{
    yoke_device *first = yoke_selection_get(test_selected(), 0);

    if (yki_device_get_traits(first)->type != YOKE_DEVICE_ACCELERATOR)
        return;
    yoke_selection_destroy(selected.selection);
    yoke_context_destroy(selected.context);
    selected.selection = NULL;
}

yoke_replica *
test_replica(const test_devices *devices, yoke_graph *graph, const yoke_replica_options *options)
{
    yoke_selection *selection;
    yoke_replica *replica;

    ASSERT_OK(yoke_selection_create(devices->context, devices->selector, NULL, &selection));
    ASSERT_OK(yoke_replica_create(yoke_selection_get(selection, 0), graph, options, &replica));
    yoke_selection_destroy(selection);
    return replica;
}
