/* SPDX-License-Identifier: Apache-2.0
 *
 * command.h - runs the yoke command as a process of its own, on PoCL alone.
 */
#ifndef YOKE_TESTS_COMMAND_H
#define YOKE_TESTS_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

enum { COMMAND_ARGUMENTS = 32 };

/* False: there is no PoCL, so nothing to run on. */
bool command_usable(void);
/* The data that comes with the sources: "--data=...". */
const char *command_data(void);
/* Starts `yoke` with these arguments (the last is NULL); what it writes goes to `output` and
 * `errors`, files that are made. NULL: to where the test's go. */
pid_t command_start(const char *const *arguments, const char *output, const char *errors);
/* The same in the process that calls it: after a fork. Does not return. */
void command_become(const char *const *arguments);
/* Its exit status, or minus the signal that ended it. */
int command_wait(pid_t process);
/* Whether it has not ended. */
bool command_runs(pid_t process);
double command_now(void);
void command_sleep(double seconds);

#endif
