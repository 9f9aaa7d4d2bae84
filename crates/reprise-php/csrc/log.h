/* Lines of the server's log. */
#ifndef REPRISE_LOG_H
#define REPRISE_LOG_H

void reprise_log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reprise_service_log(const char *level, const char *what, const char *detail); /* on any stack */

#endif
