/* A request, in every mode. */
#ifndef REPRISE_REQUEST_H
#define REPRISE_REQUEST_H

#include <stdbool.h>

#include "wire.h"

/* Completes the response for the client; the script may go on. False: the response was complete before. */
bool reprise_request_finish(void);
void reprise_finish_response(void); /* completes it as it is; the worker gives up the exchange */
int reprise_note_memory(void);
/* On any stack. Copies the head, and enters PHP. False: the front has taken the request back. */
bool reprise_claim_request(void);
void reprise_describe_request(const struct wire_RequestHead *head);
void reprise_script_begins(void);
/* False: exit() or an error has ended it. */
bool reprise_run_script(const char *script);
void reprise_close_script(void);
bool reprise_script_has_begun(void); /* in a boot; false while the file of auto_prepend_file runs */
void reprise_enter_directory(const char *script);

#endif
