/* SPDX-License-Identifier: Apache-2.0
 *
 * devices.c - lists the OpenCL devices of this machine, or those that a selector picks.
 *
 *   cc devices.c -o devices $(pkg-config --cflags --libs yoke)
 *   ./devices
 *   ./devices cpu:0/2@256MiB
 *
 * The second splits the first CPU into two devices of half its compute units, each of
 * which may use 256 MiB. The whole of a yoke program is here: create, use, destroy, and
 * say yoke_last_error() when a call fails.
 */
#include <stdio.h>

#include <yoke.h>

static yoke_status
print_device(yoke_device *device)
{
    static const char *const kinds[] = {"whole", "sub-device", "slice"};
    yoke_device_info info;
    yoke_status status = yoke_device_get_info(device, &info);

    if (status != YOKE_OK)
        return status;
    printf("%-12s %-10s %3u units  %6.1f GiB", info.id, kinds[info.virtual_kind],
           (unsigned)info.compute_units, (double)info.memory / (1 << 30));
    if (info.quota > 0)
        printf(" (quota %.0f MiB)", (double)info.quota / (1 << 20));
    printf("  %s, %s\n", info.name, info.platform);
    return YOKE_OK;
}

int
main(int argc, char **argv)
{
    const char *selector = argc > 1 ? argv[1] : NULL; /* NULL: $YOKE_DEVICES, else "all" */
    yoke_context *context = NULL;
    yoke_selection *selection = NULL;
    yoke_status status = yoke_context_create(NULL, &context);

    if (status == YOKE_OK)
        status = yoke_selection_create(context, selector, NULL, &selection);
    if (status == YOKE_OK) {
        for (size_t i = 0; i < yoke_selection_count(selection) && status == YOKE_OK; i++)
            status = print_device(yoke_selection_get(selection, i));
    }
    if (status != YOKE_OK)
        fprintf(stderr, "devices: %s: %s\n", yoke_status_string(status), yoke_last_error());
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    return status == YOKE_OK ? 0 : 1;
}
