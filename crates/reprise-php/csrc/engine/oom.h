/*
 * Since PHP 8.2.33 exhausted memory unwinds as exit() does, and PHP calls no function until its mark is removed.
 * Earlier versions treat it as any fatal error.
 */
#ifndef REPRISE_OOM_H
#define REPRISE_OOM_H

#include <php.h>

#include <stdbool.h>

/* Whether memory was exhausted. Removes PHP's mark of it. */
static inline bool engine_forget_exhausted_memory(void)
{
#ifdef ZEND_HAS_OOM
	bool was_exhausted = EG(delayed_oom).state != ZEND_OOM_STATE_NONE;

	EG(delayed_oom).state = ZEND_OOM_STATE_NONE;
	return was_exhausted;
#else
	return false;
#endif
}

#endif
