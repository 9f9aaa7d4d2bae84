/* Asks PHP for a call of zend_interrupt_function before its next step. Safe in a signal handler. */
#ifndef REPRISE_INTERRUPT_H
#define REPRISE_INTERRUPT_H

#include <php.h>

static inline void engine_interrupt(void)
{
	zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
}

/* PHP has been asked for a call before its next step: a time limit is over, for example. */
static inline bool engine_is_interrupted(void)
{
	return zend_atomic_bool_load_ex(&EG(vm_interrupt));
}

#endif
