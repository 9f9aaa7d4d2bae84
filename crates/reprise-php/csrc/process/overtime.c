/*
 * A request that runs over its soft limit. The supervisor sends a signal. PHP then ends the request at its next step,
 * with an error that says where the script is. A request that never comes to a next step is killed at the hard limit.
 */
#define _GNU_SOURCE
#include <php.h>
#include <zend_builtin_functions.h>
#include <zend_exceptions.h>

#include <signal.h>

#include "../engine/interrupt.h"
#include "overtime.h"
#include "../core/worker_state.h"

/* A rewind clears it with all other memory of PHP. */
static volatile sig_atomic_t is_over;
static void (*next_interrupt)(zend_execute_data *);

static void on_signal(int signal)
{
	(void)signal;
	is_over = 1;
	engine_interrupt();
}

static _Noreturn void end_request(void)
{
	zval trace;

	zend_fetch_debug_backtrace(&trace, 0, DEBUG_BACKTRACE_IGNORE_ARGS, 64);
	zend_string *text = zend_trace_to_string(Z_ARRVAL(trace), true);
	zend_error_noreturn(E_ERROR, "The request ran over its soft_timeout\nStack trace:\n%s", ZSTR_VAL(text));
}

static void interrupt(zend_execute_data *data)
{
	if (is_over) {
		is_over = 0;
		if (reprise_worker->responding) {
			end_request();
		}
	}
	if (next_interrupt) {
		next_interrupt(data);
	}
}

void process_overtime_start(void)
{
	next_interrupt = zend_interrupt_function;
	zend_interrupt_function = interrupt;
}

void process_overtime_watch(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(ipc_OVERTIME_SIGNAL, &action, NULL);
}

void process_overtime_forget(void)
{
	is_over = 0;
}
