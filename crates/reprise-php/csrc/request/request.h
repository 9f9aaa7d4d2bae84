/* A request, in every mode. */
#ifndef REPRISE_REQUEST_H
#define REPRISE_REQUEST_H

#include <stdbool.h>

#include "ipc.h"

/* Completes the response for the client; the script may go on. False: the response was complete before. */
bool request_finish(void);
void request_finish_response(void); /* completes it as it is; the worker gives up the exchange */
int request_note_memory(void);
/* On any stack. Copies the head, and enters PHP. False: the front has taken the request back. */
bool request_claim(void);
void request_describe(const struct ipc_RequestHead *head);
void request_script_begins(void);
/* False: exit() or an error has ended it. */
bool request_run_script(const char *script);
void request_close_script(void);
bool request_script_has_begun(void); /* in a boot; false while the file of auto_prepend_file runs */
void request_enter_directory(const char *script);
/* The script of a boot has ended before its call. After exit() or an error the message has PHP's last error. */
_Noreturn void request_boot_ended(const char *how, bool ran_to_end);

#endif
