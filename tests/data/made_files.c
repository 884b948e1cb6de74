/* SPDX-License-Identifier: Apache-2.0
 *
 * made_files.c - files made of bytes, for tests of file formats.
 */
#include <string.h>
#include <zlib.h>

#include "data/made_files.h"
#include "support/scratch.h"
#include "support/support.h"

unsigned char bytes[1 << 16];
size_t size;

void
put(const void *data, size_t count)
{
    memcpy(bytes + size, data, count);
    size += count;
}

void
put_big(uint32_t value)
{
    unsigned char b[] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                         (unsigned char)(value >> 8), (unsigned char)value};

    put(b, 4);
}

void
start_idx(unsigned char type, int axes, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t sizes[] = {a, b, c};

    size = 0;
    put((unsigned char[]){0, 0, type, (unsigned char)axes}, 4);
    for (int i = 0; i < axes; i++)
        put_big(sizes[i % 3]);
}

void
start_npy(const char *dictionary)
{
    unsigned char length = (unsigned char)(strlen(dictionary) + 1);

    size = 0;
    put("\x93NUMPY\1\0", 8);
    put((unsigned char[]){length, 0}, 2);
    put(dictionary, length - 1u);
    put("\n", 1);
}

const char *
written(const char *name, bool compressed)
{
    const char *path = scratch_path(name);
    gzFile file;

    if (!compressed) {
        scratch_write(path, bytes, size);
        return path;
    }
    file = gzopen(path, "wb9");
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)size), (int)size);
    ck_assert_int_eq(gzclose(file), Z_OK);
    return path;
}

const char *
text_file(const char *name, const char *text)
{
    size = 0;
    put(text, strlen(text));
    return written(name, false);
}

yoke_dataset *
opened(const char *path, const yoke_dataset_open_options *options)
{
    yoke_dataset *dataset = NULL;

    ASSERT_OK(yoke_dataset_open(path, options, &dataset));
    return dataset;
}

void
refused(const char *path, const yoke_dataset_open_options *options, yoke_status status,
        const char *part)
{
    yoke_dataset *dataset = NULL;

    ASSERT_STATUS(status, yoke_dataset_open(path, options, &dataset));
    ASSERT_DETAIL(part);
    ck_assert_msg(strncmp(yoke_last_error(), path, strlen(path)) == 0, "%s", yoke_last_error());
    ck_assert_ptr_null(dataset);
}

void
read_one(const yoke_dataset *dataset, const char *field, int64_t index, void *out)
{
    int found = yki_dataset_find(dataset, field);

    ck_assert_int_ge(found, 0);
    ASSERT_OK(yoke_dataset_read(dataset, field, &index, 1, out,
                                yki_field_size(yoke_dataset_get_field(dataset, (size_t)found))));
}
