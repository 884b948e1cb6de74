/* SPDX-License-Identifier: Apache-2.0
 *
 * cifar.c - the binary files of CIFAR-10 and CIFAR-100: records of a label (two labels, coarse and
 * fine, with 100 classes) and an image of 3 x 32 x 32 bytes, without a header. The length of the
 * file tells which of them it is, or else the labels do.
 */
#include "data/files.h"

enum { IMAGE = 3 * 32 * 32, RECORD_10 = IMAGE + 1, RECORD_100 = IMAGE + 2 };

/* Checks all records as if each had `labels` labels. `bad` is the first record with a label that is
 * too large, and `value` that label; -1: there is none. */
static yoke_status
check_labels(yki_bytes *bytes, int labels, int64_t *bad, int *value)
{
    uint64_t record = (uint64_t)IMAGE + (uint64_t)labels;
    uint64_t count = yki_bytes_stored_size(bytes) / record;

    *bad = -1;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char label[2];

        YKI_TRY(yki_bytes_read(bytes, i * record, (uint64_t)labels, label));
        if (label[labels - 1] >= (labels == 1 ? 10 : 100) || (labels == 2 && label[0] >= 20)) {
            *bad = (int64_t)i;
            *value = label[labels - 1];
            break;
        }
    }
    return YOKE_OK;
}

static yoke_status
recognise(yki_bytes *bytes, int *labels)
{
    uint64_t size = yki_bytes_stored_size(bytes);
    const char *name = yki_bytes_name(bytes);
    int64_t bad = -1;
    int value = 0;

    if (yki_bytes_compressed(bytes))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s is compressed; must be unpacked, as files of CIFAR are", name);
    if (size == 0 || (size % RECORD_10 && size % RECORD_100))
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has %llu bytes; must have a multiple of %d, as CIFAR-10 has, or of %d, "
                        "as CIFAR-100 has",
                        name, (unsigned long long)size, RECORD_10, RECORD_100);
    for (*labels = 1; *labels <= 2; ++*labels) {
        if (size % ((uint64_t)IMAGE + (uint64_t)*labels))
            continue;
        YKI_TRY(check_labels(bytes, *labels, &bad, &value));
        if (bad < 0)
            return YOKE_OK;
    }
    return yki_fail(YOKE_ERROR_FORMAT, "%s: image %lld has the label %d; must be below %d", name,
                    (long long)bad, value, size % RECORD_100 ? 10 : 100);
}

yoke_status
yki_cifar_parse(yki_bytes *const *files, size_t count, yki_column *images, yki_column *labels)
{
    yki_column image = {.number = YKI_NUMBER_U8, .shape = yoke_shape(3, 32, 32)};
    yki_column label = {.number = YKI_NUMBER_U8};
    yoke_status status = YOKE_OK;
    int first = 0;

    for (size_t i = 0; i < count && status == YOKE_OK; i++) {
        uint64_t record;
        int kind = 0;

        status = recognise(files[i], &kind);
        if (status == YOKE_OK && i > 0 && kind != first)
            status = yki_fail(
                YOKE_ERROR_FORMAT,
                "%s has records of another length than %s; must all be of CIFAR-10 or of CIFAR-100",
                yki_bytes_name(files[i]), yki_bytes_name(files[0]));
        if (status != YOKE_OK)
            break;
        first = kind;
        record = (uint64_t)IMAGE + (uint64_t)kind;
        image.stride = label.stride = record;
        status = yki_column_add(&image, files[i], (uint64_t)kind,
                                (int64_t)(yki_bytes_stored_size(files[i]) / record));
        if (status == YOKE_OK)
            status = yki_column_add(&label, files[i], (uint64_t)kind - 1,
                                    (int64_t)(yki_bytes_stored_size(files[i]) / record));
    }
    if (status != YOKE_OK) {
        yki_column_clear(&image);
        yki_column_clear(&label);
        return status;
    }
    *images = image;
    *labels = label;
    return YOKE_OK;
}
