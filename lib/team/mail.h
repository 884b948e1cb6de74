/* SPDX-License-Identifier: Apache-2.0
 *
 * mail.h - values that go from a device to a device of another process, through the host's memory
 * and a message.
 */
#ifndef YKI_MAIL_H
#define YKI_MAIL_H

#include "device/device.h"
#include "team/team.h"

/* What takes one value at a time from one device to another. */
typedef struct yki_letter {
    void *memory; /* of the comm (yki_comm_alloc) */
    int32_t peer; /* the other rank; -1: nothing goes to another process */
    int32_t tag;
    size_t member;   /* of this process */
    uint64_t most;   /* bytes of `memory` */
    uint64_t size;   /* of the message under way */
    yki_event event; /* goes: the device has written `memory`; comes: it has read it */
    void *request;
    struct yki_letter *next; /* of those that go */
} yki_letter;

/* The letters of one process that are under way. */
typedef struct yki_mail {
    yoke_comm *comm;
    size_t *at;               /* yki_crew.at: set to the member whose device has failed */
    int64_t step;             /* which this process tells while others wait for its devices */
    yki_letter *first, *last; /* those that go, in the order in which they were written */
    double told;
} yki_mail;

/* Sends bytes [offset, offset + size) of a buffer, behind all that the queue has. Waits until the
 * letter is back from its journey before. */
yoke_status yki_mail_send(yki_mail *mail, yki_letter *letter, yki_queue *queue, yki_buffer *source,
                          uint64_t offset, uint64_t size);
/* Starts to receive `size` bytes, unless the letter is still in use: then *expected is false. */
yoke_status yki_mail_expect(yki_mail *mail, yki_letter *letter, uint64_t size, bool *expected);
/* Waits for a message, which the caller may have expected, and enqueues that it is written to the
 * buffer. */
yoke_status yki_mail_receive(yki_mail *mail, yki_letter *letter, yki_queue *queue,
                             yki_buffer *target, uint64_t offset, uint64_t size);
/* Sends what devices have written by now. Does not wait. */
yoke_status yki_mail_advance(yki_mail *mail);
/* Waits until all that goes has arrived. */
yoke_status yki_mail_settle(yki_mail *mail);
/* Ends the letter, when its device has done all that is enqueued. Its memory stays. */
void yki_mail_end(yki_mail *mail, yki_letter *letter);

#endif
