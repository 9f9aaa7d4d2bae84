/* Functions for PHP code, and handlers in front of PHP's own. */
#ifndef REPRISE_FUNCTIONS_H
#define REPRISE_FUNCTIONS_H

/* PHP's zif_handler. */
struct _zend_execute_data;
struct _zval_struct;
typedef void (*reprise_handler)(struct _zend_execute_data *, struct _zval_struct *);
void reprise_wrap_function(const char *name, reprise_handler wrapper, reprise_handler *wrapped);

#endif
