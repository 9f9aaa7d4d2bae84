/* A boot fails. */
#ifndef REPRISE_BOOT_FAILURE_H
#define REPRISE_BOOT_FAILURE_H

/* Writes the reason to the log, and ends the process. */
_Noreturn void reprise_boot_failed(const char *why, const char *detail);

#endif
