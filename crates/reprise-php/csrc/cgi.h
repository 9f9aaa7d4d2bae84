/* Settings of PHP-FPM. */
#ifndef REPRISE_CGI_H
#define REPRISE_CGI_H

void reprise_register_settings(int module_number);
void reprise_add_error_header(void); /* at the end of a request, before its output ends */

#endif
