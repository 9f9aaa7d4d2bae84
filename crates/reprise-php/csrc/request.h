/* A request, in every mode: request.c. */
#ifndef REPRISE_REQUEST_H
#define REPRISE_REQUEST_H

#include <stdbool.h>

#include "wire.h"

bool reprise_request_finish(void);
void reprise_finish_response(void); /* completes it as it is; the exchange is not ours any more */
int reprise_note_memory(void);
bool reprise_claim_request(void); /* on any stack: copies the head and enters; false if it is not ours any more */
void reprise_describe_request(const struct wire_RequestHead *head);
void reprise_script_begins(void);
/* False if it was left by exit() or by an error. */
bool reprise_run_script(const char *script);
void reprise_close_script(void);
bool reprise_script_has_begun(void); /* in a boot: false in what auto_prepend_file names */
void reprise_enter_directory(const char *script);

#endif
