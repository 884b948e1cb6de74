/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_shard_index.c - one input for the reader of an index of shards.
 *
 * What holds for every input: a refusal has a sentence that names the file; what is
 * accepted has a tensor at least, and only names of files without a folder.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/shards.h"

int
fuzz_shard_index(const uint8_t *data, size_t size)
{
    yki_index index;
    yoke_status status = yki_index_parse((const char *)data, size, "input", &index);

    if (status != YOKE_OK) {
        require(status == YOKE_ERROR_FORMAT, "refused with another status");
        require(strncmp(yoke_last_error(), "input", 5) == 0, "refused without naming the file");
        return 0;
    }
    require(index.count > 0, "no tensor");
    for (size_t i = 0; i < index.count; i++)
        require(*index.entries[i].file && !strchr(index.entries[i].file, '/'), "a folder");
    yki_index_clear(&index);
    return 0;
}
