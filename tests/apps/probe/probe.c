/* An extension as a profiler is one: it sees requests begin and end, and does the last of its work behind their output.
 */
#include <php.h>

static unsigned begun, ended, left;

ZEND_BEGIN_ARG_INFO_EX(arguments, 0, 0, 0)
ZEND_END_ARG_INFO()

/* How many requests it has seen begin, end, and left behind. */
PHP_FUNCTION(probe_seen)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	add_next_index_long(return_value, begun);
	add_next_index_long(return_value, ended);
	add_next_index_long(return_value, left);
}

static const zend_function_entry functions[] = {PHP_FE(probe_seen, arguments) PHP_FE_END};

PHP_RINIT_FUNCTION(probe)
{
	begun++;
	return SUCCESS;
}

PHP_RSHUTDOWN_FUNCTION(probe)
{
	ended++;
	return SUCCESS;
}

static zend_result leave(void)
{
	left++;
	return SUCCESS;
}

zend_module_entry probe_module_entry = {
    STANDARD_MODULE_HEADER,
    "probe",
    functions,
    NULL,
    NULL,
    PHP_RINIT(probe),
    PHP_RSHUTDOWN(probe),
    NULL,
    "1",
    NO_MODULE_GLOBALS,
    leave,
    STANDARD_MODULE_PROPERTIES_EX,
};
ZEND_GET_MODULE(probe)
