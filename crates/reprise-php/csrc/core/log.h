/* Lines of the server's log. */
#ifndef REPRISE_LOG_H
#define REPRISE_LOG_H

/* The word of a level by its number in syslog, 0 to 7. */
const char *reprise_log_level(unsigned number);
void reprise_log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `about` follows the message, however long that is. */
void reprise_log_about(const char *about, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reprise_service_log(const char *level, const char *what, const char *detail); /* on any stack */

#endif
