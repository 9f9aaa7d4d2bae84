/* Settings of PHP-FPM. */

#ifndef REPRISE_CGI_H
#define REPRISE_CGI_H

void request_register_settings(int module_number);
void request_add_error_header(void); /* at the end of a request, before its output ends */

#endif
