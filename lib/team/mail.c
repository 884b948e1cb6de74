/* SPDX-License-Identifier: Apache-2.0
 *
 * mail.c - takes values between devices of different processes.
 *
 * A device writes a value into memory of the comm, a message takes it to the other process, whose
 * device reads it from there. A comm is called by one thread only, so somebody has to see that the
 * device has written before the message may go: the thread that enqueues looks whenever it comes
 * by, and while it waits for a message itself. So it never keeps a message back that another
 * process needs before it can send this one its own.
 *
 * Nothing can deadlock if all processes go through what is sent and received in one order: what
 * this process waits for was sent, or will be, without anything that it does later. Its devices
 * need only messages that it has received.
 */
#include <time.h>

#include "team/mail.h"

/* Others wait for this process's devices, and should not think that it hangs. */
static void
tell_others(yki_mail *mail)
{
    const double now = yki_now();

    if (!mail->comm->heartbeat || now - mail->told < 0.1)
        return;
    mail->told = now;
    mail->comm->heartbeat(mail->comm, mail->step, "a step");
}

/* Whether the letter may be used again. */
static yoke_status
is_free(const yki_letter *letter, bool *is)
{
    *is = !letter->request && !letter->next;
    return *is ? yki_event_is_complete(&letter->event, is) : YOKE_OK;
}

static void
drop_first(yki_mail *mail)
{
    yki_letter *gone = mail->first;

    mail->first = gone->next == gone ? NULL : gone->next;
    mail->last = mail->first ? mail->last : NULL;
    gone->next = NULL;
}

/* The last one of the list is behind itself, so that `next` says who is in the list. */
static void
append(yki_mail *mail, yki_letter *letter)
{
    letter->next = letter;
    if (mail->last)
        mail->last->next = letter;
    else
        mail->first = letter;
    mail->last = letter;
}

/* The device has written the letter, or has failed to. */
static yoke_status
start(yki_mail *mail, yki_letter *letter)
{
    *mail->at = letter->member;
    YKI_TRY(yki_event_wait(&letter->event));
    return mail->comm->send_start(mail->comm, letter->memory, letter->size, letter->peer,
                                  letter->tag, &letter->request);
}

/* Starts what may go, in its order, and takes out what has arrived. *busy: the first one that has
 * not been started waits for its device. */
static yoke_status
advance(yki_mail *mail, bool *busy)
{
    yki_letter *at = mail->first, *next = NULL;
    bool done;

    *busy = false;
    for (; at && !*busy; at = next) {
        next = at->next == at ? NULL : at->next;
        if (!at->request) {
            YKI_TRY(yki_event_is_complete(&at->event, &done));
            *busy = !done;
            if (done)
                YKI_TRY(start(mail, at));
        }
    }
    while (mail->first && mail->first->request) {
        YKI_TRY(mail->comm->test(mail->comm, &mail->first->request, false, &done));
        if (!done)
            break;
        drop_first(mail);
    }
    return YOKE_OK;
}

yoke_status
yki_mail_advance(yki_mail *mail)
{
    bool busy;

    return mail->first ? advance(mail, &busy) : YOKE_OK;
}

static void
rest(yki_mail *mail)
{
    const struct timespec pause = {0, 50000};

    tell_others(mail);
    nanosleep(&pause, NULL);
}

/* Waits until a message has come. */
static yoke_status
wait_for(yki_mail *mail, yki_letter *letter)
{
    bool done = false, busy;

    while (!done) {
        YKI_TRY(advance(mail, &busy));
        YKI_TRY(mail->comm->test(mail->comm, &letter->request, !busy, &done));
        if (!done)
            rest(mail);
    }
    return YOKE_OK;
}

/* Waits until the letter may be used again. */
static yoke_status
wait_until_free(yki_mail *mail, yki_letter *letter)
{
    bool busy, done;

    while (letter->next) {
        YKI_TRY(advance(mail, &busy));
        if (!letter->next)
            break;
        if (busy) {
            rest(mail);
        } else { /* all are on their way */
            YKI_TRY(mail->comm->test(mail->comm, &mail->first->request, true, &done));
            drop_first(mail);
        }
    }
    *mail->at = letter->member;
    YKI_TRY(yki_event_wait(&letter->event));
    yki_event_release(&letter->event);
    return YOKE_OK;
}

yoke_status
yki_mail_send(yki_mail *mail, yki_letter *letter, yki_queue *queue, yki_buffer *source,
              uint64_t offset, uint64_t size)
{
    YKI_TRY(wait_until_free(mail, letter));
    *mail->at = letter->member;
    YKI_TRY(
        yki_queue_read(queue, source, offset, size, letter->memory, YKI_NO_WAIT, &letter->event));
    letter->size = size;
    append(mail, letter);
    YKI_TRY(yki_queue_flush(queue));
    return yki_mail_advance(mail);
}

yoke_status
yki_mail_expect(yki_mail *mail, yki_letter *letter, uint64_t size, bool *expected)
{
    YKI_TRY(is_free(letter, expected));
    if (!*expected)
        return YOKE_OK;
    yki_event_release(&letter->event);
    letter->size = size;
    return mail->comm->receive_start(mail->comm, letter->memory, size, letter->peer, letter->tag,
                                     &letter->request);
}

yoke_status
yki_mail_receive(yki_mail *mail, yki_letter *letter, yki_queue *queue, yki_buffer *target,
                 uint64_t offset, uint64_t size)
{
    bool expected;

    if (!letter->request) {
        YKI_TRY(wait_until_free(mail, letter));
        YKI_TRY(yki_mail_expect(mail, letter, size, &expected));
    }
    if (letter->size != size)
        return yki_fail_bug("a message of %llu bytes was expected, not of %llu",
                            (unsigned long long)letter->size, (unsigned long long)size);
    YKI_TRY(wait_for(mail, letter));
    *mail->at = letter->member;
    return yki_queue_write(queue, target, offset, size, letter->memory, YKI_NO_WAIT,
                           &letter->event);
}

yoke_status
yki_mail_settle(yki_mail *mail)
{
    while (mail->first)
        YKI_TRY(wait_until_free(mail, mail->last));
    return YOKE_OK;
}

void
yki_mail_end(yki_mail *mail, yki_letter *letter)
{
    bool done;

    if (letter->request)
        (void)mail->comm->test(mail->comm, &letter->request, true, &done);
    (void)yki_event_wait(&letter->event);
    yki_event_release(&letter->event);
}
