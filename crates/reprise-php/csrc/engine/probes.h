/* Whether the PHP that runs is the PHP that Reprise was compiled for. */
#ifndef REPRISE_PROBES_H
#define REPRISE_PROBES_H

#include <stdbool.h>

/* Before any code of libphp runs, and before the other. False: a message on standard error says what differs. */
bool engine_is_loadable(void);

/* Once, when PHP's modules have started, before any code runs. False: a message on standard error says what differs. */
bool engine_is_as_compiled(void);

#endif
