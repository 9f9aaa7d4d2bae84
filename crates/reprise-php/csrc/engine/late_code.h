/* Code that runs after the callable of a worker script's request. */
#ifndef REPRISE_LATE_CODE_H
#define REPRISE_LATE_CODE_H

#include <stdbool.h>

/* False: the request has left nothing that runs code of the application when the request ends. */
bool engine_late_code_may_run(void);

#endif
