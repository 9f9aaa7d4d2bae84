/* Asks PHP for a call of zend_interrupt_function before its next step. Safe in a signal handler. */
#ifndef REPRISE_INTERRUPT_H
#define REPRISE_INTERRUPT_H

#include <php.h>

static inline void reprise_interrupt(void)
{
	zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
}

#endif
