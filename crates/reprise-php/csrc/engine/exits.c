/*
 * Whether a request of a worker script has called exit(). PHP runs no `finally` block after exit(), so the application
 * may be left in the middle of a change. The call itself is noted, because PHP forgets it in some places, such as after
 * an exception handler.
 */
#define _GNU_SOURCE
#include <php.h>
#include <zend_execute.h>

#include "wrap.h"
#include "exits.h"

static bool has_exited;

void engine_exit_forget(void)
{
	has_exited = false;
}

void engine_exit_note(void)
{
	has_exited = true;
}

bool engine_exit_was_called(void)
{
	return has_exited;
}

#ifdef ZEND_EXIT
static user_opcode_handler_t earlier;

static int noting_exit(zend_execute_data *frame)
{
	has_exited = true;
	return earlier ? earlier(frame) : ZEND_USER_OPCODE_DISPATCH;
}

void engine_exits_watch(void)
{
	earlier = zend_get_user_opcode_handler(ZEND_EXIT);
	zend_set_user_opcode_handler(ZEND_EXIT, noting_exit);
}
#else
/* Since PHP 8.4 exit() and die() are functions. */
static zif_handler exit_of_php, die_of_php;

static void noting_exit(INTERNAL_FUNCTION_PARAMETERS)
{
	has_exited = true;
	exit_of_php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void engine_exits_watch(void)
{
	engine_wrap_function("exit", noting_exit, &exit_of_php);
	engine_wrap_function("die", noting_exit, &die_of_php);
}
#endif
