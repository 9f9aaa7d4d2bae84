/* A step of a request's end. */
#ifndef REPRISE_STEP_H
#define REPRISE_STEP_H

/* A fatal error in one step does not keep PHP from the next steps. */
#define STEP(what)                                                                                                     \
	zend_try                                                                                                           \
	{                                                                                                                  \
		what;                                                                                                          \
	}                                                                                                                  \
	zend_end_try()

#endif
