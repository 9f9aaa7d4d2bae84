/*
 * Since PHP 8.2.33 exhausted memory unwinds like exit(), and no function is called until that is forgotten. Earlier it
 * was an error like others.
 */
#ifndef REPRISE_OOM_H
#define REPRISE_OOM_H

#include <php.h>

#include <stdbool.h>

/* Whether memory was exhausted; from here on it is forgotten. */
static inline bool reprise_forget_exhausted_memory(void)
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
