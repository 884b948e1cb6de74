/* SPDX-License-Identifier: Apache-2.0
 *
 * array.c - arrays, each on one device, and what a team does with one on each of
 * its devices: scatter, gather, all-reduce. All of these functions wait. They are
 * for set-up, tests and users' own training loops; the trainer uses exchange.c.
 */
#include <string.h>

#include "replica/replica.h"
#include "team/team.h"

yoke_status
yoke_array_create(yoke_device *device, yoke_type type, int64_t count, yoke_array **out)
{
    yoke_array *array;
    yoke_status status;

    YKI_GIVEN("yoke_array_create", {"device", device}, {"array", out});
    if ((unsigned)type > YOKE_U8)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_array_create: type is %d; must be YOKE_F32, YOKE_I32 or YOKE_U8",
                        (int)type);
    if (count < 1)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "yoke_array_create: count", count, 1,
                              INT64_MAX);
    array = yki_alloc(1, sizeof *array, "an array");
    if (!array)
        return YOKE_ERROR_OUT_OF_MEMORY;
    array->type = type;
    array->count = count;
    status = yki_buffer_create(device, (uint64_t)count * yki_type_size(type), 0, "an array",
                               &array->buffer);
    if (status != YOKE_OK) {
        yki_free(array);
        return status;
    }
    *out = array;
    return YOKE_OK;
}

void
yoke_array_destroy(yoke_array *array)
{
    if (!array || array->replica)
        return;
    yki_buffer_destroy(array->buffer);
    yki_free(array);
}

/* Writes bytes of an array. If a replica lends it, waits for all that the replica has enqueued. */
static yoke_status
put(yoke_array *array, uint64_t offset, uint64_t size, const void *data)
{
    if (array->replica) {
        YKI_TRY(yki_queue_finish(array->replica->queue));
        array->replica->weights->version += array->is_weight;
    }
    return yki_buffer_put(array->buffer, offset, size, data);
}

static yoke_status
get(yoke_array *array, uint64_t offset, uint64_t size, void *data)
{
    if (array->replica)
        YKI_TRY(yki_queue_finish(array->replica->queue));
    return yki_buffer_get(array->buffer, offset, size, data);
}

int64_t
yoke_array_count(const yoke_array *array)
{
    return array ? array->count : 0;
}

yoke_device *
yoke_array_get_device(const yoke_array *array)
{
    return array ? yki_buffer_owner(array->buffer) : NULL;
}

static yoke_status
check_count(const yoke_array *array, const void *values, int64_t count, const char *function)
{
    YKI_GIVEN(function, {"array", array}, {"values", values});
    if (count != array->count)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s: count is %lld; must be %lld, as the array has values", function,
                        (long long)count, (long long)array->count);
    return YOKE_OK;
}

yoke_status
yoke_array_write(yoke_array *array, const void *values, int64_t count)
{
    YKI_TRY(check_count(array, values, count, "yoke_array_write"));
    return put(array, 0, yki_buffer_size(array->buffer), values);
}

yoke_status
yoke_array_read(yoke_array *array, void *values, int64_t count)
{
    YKI_TRY(check_count(array, values, count, "yoke_array_read"));
    return get(array, 0, yki_buffer_size(array->buffer), values);
}

/* ---- rows over a team ---- */

/* Refuses counts for which the size of all rows, in bytes, would not fit 64 bits. */
static yoke_status
check_counts(const yoke_team *team, const int64_t *counts, int64_t row_values, const char *function)
{
    int64_t left = INT64_MAX / 4 / row_values;

    for (size_t k = 0; k < team->total; k++) {
        if (counts[k] < 0)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: counts[%zu] is %lld; must be at least 0", function, k,
                            (long long)counts[k]);
        if (counts[k] > left)
            return yki_fail(
                YOKE_ERROR_SHAPE,
                "%s: counts[%zu] is %lld; must be at most %lld with rows of %lld values", function,
                k, (long long)counts[k], (long long)left, (long long)row_values);
        left -= counts[k];
    }
    return YOKE_OK;
}

static yoke_status
check_rows(const yoke_team *team, const int64_t *counts, int64_t row_values, const void *rows,
           yoke_array *const *arrays, const char *function)
{
    YKI_GIVEN(function, {"team", team}, {"counts", counts}, {"rows", rows}, {"arrays", arrays});
    if (row_values < 1)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: row_values is %lld; must be at least 1",
                        function, (long long)row_values);
    YKI_TRY(check_counts(team, counts, row_values, function));
    for (size_t k = 0; k < team->count; k++) {
        if (!arrays[k] || yoke_array_get_device(arrays[k]) != yoke_team_get_device(team, k))
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: array %zu is not on device %zu; must be there", function, k, k);
        if (arrays[k]->type != arrays[0]->type)
            return yki_fail(YOKE_ERROR_TYPE,
                            "%s: array %zu has type %s; must be %s, the type of array 0", function,
                            k, yki_value_type_name(arrays[k]->type),
                            yki_value_type_name(arrays[0]->type));
        if (counts[team->first + k] > arrays[k]->count / row_values)
            return yki_fail(
                YOKE_ERROR_SHAPE,
                "%s: array %zu has room for %lld values; must have room for %lld rows of %lld",
                function, k, (long long)arrays[k]->count, (long long)counts[team->first + k],
                (long long)row_values);
    }
    return YOKE_OK;
}

static int64_t
rows_before(const int64_t *counts, size_t device)
{
    int64_t sum = 0;

    for (size_t k = 0; k < device; k++)
        sum += counts[k];
    return sum;
}

yoke_status
yoke_team_scatter(yoke_team *team, const int64_t *counts, int64_t row_values, const void *rows,
                  yoke_array *const *arrays)
{
    YKI_TRY(check_rows(team, counts, row_values, rows, arrays, "yoke_team_scatter"));
    for (size_t k = 0; k < team->count; k++) {
        uint64_t row = (uint64_t)row_values * yki_type_size(arrays[k]->type);
        int64_t first = rows_before(counts, team->first + k), n = counts[team->first + k];

        if (n)
            YKI_TRY(
                put(arrays[k], 0, (uint64_t)n * row, (const char *)rows + (uint64_t)first * row));
    }
    return YOKE_OK;
}

/* All processes send the same number of bytes, that of the process with the most rows. */
yoke_status
yki_team_share_rows(const yoke_team *team, const int64_t *counts, uint64_t row, void *rows)
{
    yoke_comm *comm = yki_team_comm(team);
    uint64_t own[2] = {0}, most = 0, *places;
    char *sent = NULL, *all = NULL;
    yoke_status status;

    if (!comm)
        return YOKE_OK;
    if (counts) {
        own[0] = (uint64_t)rows_before(counts, team->first) * row;
        own[1] = (uint64_t)rows_before(counts, team->first + team->count) * row - own[0];
    } else {
        own[0] = team->first * row;
        own[1] = team->count * row;
    }
    places = yki_alloc((size_t)comm->ranks, sizeof own, "rows of other processes");
    if (!places)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, own, sizeof own, places);
    for (int32_t r = 0; status == YOKE_OK && r < comm->ranks; r++)
        most = YKI_MAX(most, places[2 * r + 1]);
    if (status == YOKE_OK && most) {
        sent = yki_alloc(most, 1, "rows to send");
        all = yki_alloc(most * (uint64_t)comm->ranks, 1, "rows of other processes");
        status = sent && all ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status == YOKE_OK && most) {
        memcpy(sent, (char *)rows + own[0], own[1]);
        status = comm->allgather(comm, sent, most, all);
    }
    for (int32_t r = 0; status == YOKE_OK && most && r < comm->ranks; r++)
        memcpy((char *)rows + places[2 * r], all + most * (uint64_t)r, places[2 * r + 1]);
    yki_free(places);
    yki_free(sent);
    yki_free(all);
    return status;
}

yoke_status
yoke_team_gather(yoke_team *team, const int64_t *counts, int64_t row_values,
                 yoke_array *const *arrays, void *rows)
{
    uint64_t row = 0;

    YKI_TRY(check_rows(team, counts, row_values, rows, arrays, "yoke_team_gather"));
    for (size_t k = 0; k < team->count; k++) {
        int64_t first = rows_before(counts, team->first + k), n = counts[team->first + k];

        row = (uint64_t)row_values * yki_type_size(arrays[k]->type);
        if (n)
            YKI_TRY(get(arrays[k], 0, (uint64_t)n * row, (char *)rows + (uint64_t)first * row));
    }
    return yki_team_share_rows(team, counts, row, rows);
}

/* ---- sums ---- */

static yoke_status
sum_list(yoke_team *team, yoke_array *const *arrays, float *sum, float *other, int64_t count)
{
    yoke_comm *comm = yki_team_comm(team);
    uint64_t size = (uint64_t)count * 4;
    void *request = NULL;
    bool done;

    YKI_TRY(get(arrays[0], 0, size, sum));
    for (size_t k = 1; k < team->count; k++) {
        YKI_TRY(get(arrays[k], 0, size, other));
        for (int64_t i = 0; i < count; i++)
            sum[i] += other[i];
    }
    if (comm) {
        YKI_TRY(comm->allreduce_start(comm, YOKE_F32, sum, other, (size_t)count, 0, &request));
        YKI_TRY(comm->test(comm, &request, true, &done));
        memcpy(sum, other, size);
    }
    for (size_t k = 0; k < team->count; k++)
        YKI_TRY(put(arrays[k], 0, size, sum));
    return YOKE_OK;
}

yoke_status
yoke_team_allreduce(yoke_team *team, yoke_array *const *arrays, size_t count)
{
    yoke_status status = YOKE_OK;

    if (!team || (!arrays && count))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_team_allreduce: %s is NULL",
                        team ? "arrays" : "team");
    for (size_t i = 0; i < count * team->count; i++) {
        const yoke_array *first = arrays[i / team->count * team->count];

        if (!arrays[i] ||
            yoke_array_get_device(arrays[i]) != yoke_team_get_device(team, i % team->count))
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "yoke_team_allreduce: array %zu is not on device %zu; must be there", i,
                            i % team->count);
        if (arrays[i]->type != YOKE_F32)
            return yki_fail(YOKE_ERROR_TYPE,
                            "yoke_team_allreduce: array %zu has type %s; must be f32", i,
                            yki_value_type_name(arrays[i]->type));
        if (arrays[i]->count != first->count)
            return yki_fail(YOKE_ERROR_SHAPE,
                            "yoke_team_allreduce: array %zu has %lld values; must be %lld, as the "
                            "first of its list has",
                            i, (long long)arrays[i]->count, (long long)first->count);
    }
    for (size_t list = 0; list < count && status == YOKE_OK; list++) {
        yoke_array *const *parts = arrays + list * team->count;
        yoke_comm *comm = yki_team_comm(team);
        size_t bytes = (size_t)parts[0]->count * sizeof(float);
        float *sum = yki_comm_alloc(comm, bytes, 0, "a sum");
        float *other = yki_comm_alloc(comm, bytes, 0, "a sum");

        status = sum && other ? sum_list(team, parts, sum, other, parts[0]->count)
                              : YOKE_ERROR_OUT_OF_MEMORY;
        yki_comm_release(comm, sum);
        yki_comm_release(comm, other);
    }
    return status;
}
