/* PHP's modules: their names, and what they do between two requests of a worker script. */
#ifndef REPRISE_MODULES_H
#define REPRISE_MODULES_H

/* On standard output, a line each. */
void reprise_print_extensions(void);

void reprise_modules_start(void);
void reprise_modules_stop(void);

#endif
