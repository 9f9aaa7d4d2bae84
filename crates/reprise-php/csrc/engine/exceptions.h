/* Exceptions that no code of a worker script has caught, between two of its requests. */
#ifndef REPRISE_EXCEPTIONS_H
#define REPRISE_EXCEPTIONS_H

#include <stdbool.h>

/* exit() ends the request. PHP reports any other exception, as at the end of a script. No exception is left. */
void engine_settle_exception(void);

/* An exception that code of the application has not to know of: it goes to the log with `what`, and is forgotten.
 * False: it is exit(), and stays. */
bool engine_report_exception(const char *what);

/* Memory was exhausted when engine_settle_exception was called: the process must not run another request. */
bool engine_is_damaged(void);

#endif
