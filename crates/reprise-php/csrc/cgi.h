/* The settings that PHP-FPM itself has: cgi.c. */
#ifndef REPRISE_CGI_H
#define REPRISE_CGI_H

void reprise_register_settings(int module_number);
void reprise_add_error_header(void); /* as a request ends, before its output does */

#endif
