/* Steps of a request's end. */
#ifndef REPRISE_STEP_H
#define REPRISE_STEP_H

/* A step of a request's end: a fatal error in it does not keep the others from being taken. */
#define STEP(what)                                                                                                     \
	zend_try                                                                                                           \
	{                                                                                                                  \
		what;                                                                                                          \
	}                                                                                                                  \
	zend_end_try()

#endif
