/* SPDX-License-Identifier: Apache-2.0
 *
 * devices.c - `yoke devices`: lists the devices, or what a selector makes of them.
 *
 * Without a selector, and with YOKE_DEVICES not set, every device of every driver is
 * listed, also those that `all` leaves out because another driver has the same chip.
 * With a selector, its logical devices are made, and destroyed at the end.
 */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "options.h"
#include "table.h"

typedef struct request {
    const char *selector; /* NULL: YOKE_DEVICES if it is set, else all devices */
    bool all, json, verbose;
} request;

typedef struct listing {
    yoke_context *context;
    yoke_selection *selection; /* NULL: whole devices of the context */
    yoke_device_info *infos;
    size_t count;
} listing;

static const yki_tool_option options[] = {
    {"all", 'a', NULL, "every device of every driver, whatever YOKE_DEVICES says",
     TOOL_FLAG(request, all)},
    TOOL_ROW_JSON(request),
    {"verbose", 'v', NULL, "all that is known, a block for each device",
     TOOL_FLAG(request, verbose)},
    {0},
};

static const char *
type_name(yoke_device_type type)
{
    switch (type) {
    case YOKE_DEVICE_GPU:
        return "gpu";
    case YOKE_DEVICE_CPU:
        return "cpu";
    case YOKE_DEVICE_ACCELERATOR:
        break;
    }
    return "acc";
}

static const char *
virtual_name(yoke_virtual_kind kind)
{
    switch (kind) {
    case YOKE_VIRTUAL_SUBDEVICE:
        return "subdevice";
    case YOKE_VIRTUAL_SLICE:
        return "slice";
    case YOKE_VIRTUAL_NONE:
        break;
    }
    return "none";
}

/* Ways to partition a device, with their names in the JSON output. */
static const struct {
    uint32_t bit;
    const char *name;
} partitions[] = {
    {YOKE_PARTITION_EQUALLY, "equally"},
    {YOKE_PARTITION_BY_COUNTS, "by_counts"},
    {YOKE_PARTITION_NUMA, "numa"},
};

enum { PARTITION_COUNT = sizeof partitions / sizeof partitions[0] };

static bool
is_preferred(const yoke_device_info *info)
{
    return info->preferred[0] == '\0' || strcmp(info->preferred, info->parent) == 0;
}

/* ---- output ---- */

static void
print_json(const listing *list)
{
    yki_tool_json json;

    yki_tool_json_start(&json, stdout);
    yki_tool_json_open_array(&json, NULL);
    for (size_t i = 0; i < list->count; i++) {
        const yoke_device_info *info = &list->infos[i];

        yki_tool_json_open_object(&json, NULL);
        yki_tool_json_string(&json, "id", info->id);
        yki_tool_json_string(&json, "name", info->name);
        yki_tool_json_string(&json, "type", type_name(info->type));
        yki_tool_json_string(&json, "platform", info->platform);
        yki_tool_json_string(&json, "vendor", info->vendor);
        yki_tool_json_string(&json, "driver", info->driver);
        yki_tool_json_string(&json, "version", info->version);
        yki_tool_json_integer(&json, "compute_units", info->compute_units);
        yki_tool_json_integer(&json, "memory", info->memory);
        yki_tool_json_integer(&json, "max_allocation", info->max_allocation);
        yki_tool_json_bool(&json, "host_memory", info->host_memory);
        yki_tool_json_integer(&json, "vector_width", info->vector_width);
        yki_tool_json_bool(&json, "fp16", info->fp16);
        yki_tool_json_bool(&json, "fp64", info->fp64);
        yki_tool_json_string(&json, "bf16", info->bf16);
        yki_tool_json_string(&json, "tf32", info->tf32);
        yki_tool_json_string(&json, "f16", info->f16);
        yki_tool_json_open_array(&json, "partition");
        for (size_t k = 0; k < PARTITION_COUNT; k++)
            if (info->partition & partitions[k].bit)
                yki_tool_json_string(&json, NULL, partitions[k].name);
        yki_tool_json_close_array(&json);
        yki_tool_json_string(&json, "hardware", info->hardware);
        yki_tool_json_string(&json, "preferred", info->preferred);
        yki_tool_json_string(&json, "virtual", virtual_name(info->virtual_kind));
        yki_tool_json_string(&json, "parent", info->parent);
        yki_tool_json_integer(&json, "quota", info->quota);
        yki_tool_json_close_object(&json);
    }
    yki_tool_json_close_array(&json);
    yki_tool_json_end(&json);
}

/* "256 MiB of 23.4 GiB", or the memory alone. */
static void
memory_text(const yoke_device_info *info, char *text, size_t size)
{
    char quota[32], memory[32];

    yki_tool_bytes(info->memory, memory);
    if (info->quota)
        snprintf(text, size, "%s of %s", yki_tool_bytes(info->quota, quota), memory);
    else
        snprintf(text, size, "%s", memory);
}

static void
virtual_text(const yoke_device_info *info, char *text, size_t size)
{
    if (info->virtual_kind == YOKE_VIRTUAL_SUBDEVICE)
        snprintf(text, size, "sub-device of %s", info->parent);
    else if (info->virtual_kind == YOKE_VIRTUAL_SLICE)
        snprintf(text, size, "slice of %s", info->parent);
    else
        snprintf(text, size, "no");
}

static int
print_table(const yki_tool_command *self, const listing *list)
{
    yki_tool_table table;
    char text[128];

    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "ID", false);
    yki_tool_table_column(&table, "NAME", false);
    yki_tool_table_column(&table, "TYPE", false);
    yki_tool_table_column(&table, "PLATFORM", false);
    yki_tool_table_column(&table, "CUS", true);
    yki_tool_table_column(&table, "MEMORY", true);
    yki_tool_table_column(&table, "VIRTUAL", false);
    yki_tool_table_column(&table, "HARDWARE", false);
    yki_tool_table_column(&table, "NOTES", false);
    for (size_t i = 0; i < list->count; i++) {
        const yoke_device_info *info = &list->infos[i];

        yki_tool_table_cell(&table, "%s", info->id);
        yki_tool_table_cell(&table, "%s", info->name);
        yki_tool_table_cell(&table, "%s", type_name(info->type));
        yki_tool_table_cell(&table, "%s", info->platform);
        yki_tool_table_cell(&table, "%u", (unsigned)info->compute_units);
        memory_text(info, text, sizeof text);
        yki_tool_table_cell(&table, "%s", text);
        virtual_text(info, text, sizeof text);
        yki_tool_table_cell(&table, "%s", text);
        yki_tool_table_cell(&table, "%s", info->hardware);
        if (is_preferred(info))
            yki_tool_table_cell(&table, "%s", "");
        else
            yki_tool_table_cell(&table, "same chip as %s", info->preferred);
    }
    if (yki_tool_table_print(&table, stdout))
        return TOOL_OK;
    yki_tool_error(self, "out of memory");
    return TOOL_FAILURE;
}

static void
property(const char *name, const char *value)
{
    printf("  %-20s", name);
    yki_tool_print_clean(value, stdout);
    putchar('\n');
}

static void
number(const char *name, uint64_t value)
{
    printf("  %-20s%llu\n", name, (unsigned long long)value);
}

static void
bytes(const char *name, uint64_t value)
{
    char text[32];

    printf("  %-20s%s (%llu bytes)\n", name, yki_tool_bytes(value, text),
           (unsigned long long)value);
}

static void
print_block(const yoke_device_info *info)
{
    char text[128];

    yki_tool_print_clean(info->id, stdout);
    putchar('\n');
    property("name", info->name);
    property("type", type_name(info->type));
    property("platform", info->platform);
    property("vendor", info->vendor);
    property("driver", info->driver);
    property("version", info->version);
    number("compute units", info->compute_units);
    bytes("memory", info->memory);
    bytes("largest allocation", info->max_allocation);
    if (info->quota)
        bytes("quota", info->quota);
    property("memory is host's", info->host_memory ? "yes" : "no");
    number("vector width", info->vector_width);
    property("fp16", info->fp16 ? "yes" : "no");
    property("fp64", info->fp64 ? "yes" : "no");
    property("bf16", info->bf16[0] ? info->bf16 : "no unit");
    property("tf32", info->tf32[0] ? info->tf32 : "no unit");
    property("f16", info->f16[0] ? info->f16 : "no unit");
    printf("  %-19s", "partition");
    for (size_t k = 0; k < PARTITION_COUNT; k++)
        if (info->partition & partitions[k].bit)
            printf(" %s", partitions[k].name);
    puts(info->partition ? "" : " no");
    property("hardware", info->hardware);
    if (!is_preferred(info))
        property("same chip as", info->preferred);
    virtual_text(info, text, sizeof text);
    property("virtual", text);
}

/* ---- warnings ---- */

static bool
counted_before(const listing *list, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(list->infos[i].parent, list->infos[index].parent) == 0)
            return true;
    return false;
}

/* The compute units that the listed parts of one CPU keep busy. Those of sub-devices add up; slices
 * share theirs. */
static uint32_t
busy_units(const listing *list, const char *parent)
{
    uint32_t sum = 0, most = 0;

    for (size_t i = 0; i < list->count; i++) {
        const yoke_device_info *info = &list->infos[i];

        if (strcmp(info->parent, parent) != 0)
            continue;
        if (info->virtual_kind == YOKE_VIRTUAL_SUBDEVICE)
            sum += info->compute_units;
        else if (info->compute_units > most)
            most = info->compute_units;
    }
    return sum > most ? sum : most;
}

static void
warn_of_cores(const yki_tool_command *self, const listing *list)
{
    yki_tool_cores cores = yki_tool_usable_cores("");

    for (size_t i = 0; i < list->count; i++) {
        const yoke_device_info *info = &list->infos[i];
        uint32_t units;

        if (info->type != YOKE_DEVICE_CPU || counted_before(list, i))
            continue;
        units = busy_units(list, info->parent);
        if (units > cores.count)
            yki_tool_warn(self, "%s runs %u compute units, but this process may use %g cores: %s",
                          info->parent, (unsigned)units, cores.count, cores.reason);
    }
}

/* ---- the command ---- */

/* A device of the selection or, without one, of the context. */
static yoke_device *
device_at(const listing *list, size_t index)
{
    return list->selection ? yoke_selection_get(list->selection, index)
                           : yoke_context_get_device(list->context, index);
}

/* A device without information is an error, but the others are listed all the same. */
static int
fill_listing(const yki_tool_command *self, listing *list)
{
    size_t count = list->selection ? yoke_selection_count(list->selection)
                                   : yoke_context_device_count(list->context);
    int status = TOOL_OK;

    list->infos = calloc(count ? count : 1, sizeof *list->infos);
    if (!list->infos) {
        yki_tool_error(self, "out of memory");
        return TOOL_FAILURE;
    }
    for (size_t i = 0; i < count; i++) {
        yoke_status failed = yoke_device_get_info(device_at(list, i), &list->infos[list->count]);

        if (failed)
            status = yki_tool_fail(self, failed);
        else
            list->count++;
    }
    return status;
}

static bool
environment_selects(void)
{
    const char *selector = getenv("YOKE_DEVICES");

    return selector && *selector;
}

static int
show(const yki_tool_command *self, const request *wanted, listing *list)
{
    bool selects = wanted->selector || (!wanted->all && environment_selects());
    int status, printed = TOOL_OK;
    yoke_status failed = yoke_context_create(NULL, &list->context);

    if (failed)
        return yki_tool_fail(self, failed);
    if (selects) {
        failed = yoke_selection_create(list->context, wanted->selector,
                                       &(yoke_selection_options){.holder = self->name},
                                       &list->selection);
        if (failed)
            return yki_tool_fail(self, failed);
    }
    status = fill_listing(self, list);
    if (!list->infos)
        return status;
    warn_of_cores(self, list);
    if (wanted->json)
        print_json(list);
    else if (wanted->verbose)
        for (size_t i = 0; i < list->count; i++)
            print_block(&list->infos[i]);
    else
        printed = print_table(self, list);
    return status ? status : printed;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {0};
    listing list = {0};
    int status = yki_tool_read(self, argc, argv, &wanted);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, "selector (a list has commas)", NULL,
                                        &wanted.selector);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    if (wanted.all && wanted.selector)
        return yki_tool_usage(self, "--all is given with a selector; must be one of both");

    /* The library logs a note for a platform without a device, and a warning for a broken one. */
    yki_tool_log(self, wanted.verbose ? YOKE_LOG_INFO : YOKE_LOG_WARNING);
    status = show(self, &wanted, &list);
    free(list.infos);
    yoke_selection_destroy(list.selection);
    yoke_context_destroy(list.context);
    return status;
}

const yki_tool_command yki_tool_devices = {
    .name = "yoke devices",
    .synopsis = "[OPTION]... [SELECTOR]",
    .summary = "list devices, and what a selector makes of them",
    .description =
        "List every OpenCL device, or the logical devices that SELECTOR stands for:\n"
        "all, gpu, gpu:1, cpu:0/2, cpu:0/1+3, cpu:0/numa, gpu:0/4@1GiB, name~TEXT,\n"
        "or a list of these with commas. YOKE_DEVICES is a selector for when there is none.",
    .options = options,
    .run = run,
    .example = "yoke devices cpu:0/2@256MiB",
};
