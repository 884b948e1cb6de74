/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c.c - the CRC with Castagnoli's polynomial, four bits at a time, as records of TensorFlow
 * have it.
 */
#include "base/base.h"

uint32_t
yki_crc32c(const void *data, size_t size)
{
    static const uint32_t of_nibble[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                           0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                           0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                           0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ of_nibble[crc & 15];
        crc = crc >> 4 ^ of_nibble[crc & 15];
    }
    return ~crc;
}
