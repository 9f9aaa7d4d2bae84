/*
 * The page that a fatal error gets under `reprise dev`. PHP tells of the error before it does anything else with it
 * (zend_observer_error_register), whatever extension shows errors. The page is made by a shutdown function, behind
 * those of the application: what these respond with stays.
 */
#ifndef REPRISE_ERROR_PAGE_H
#define REPRISE_ERROR_PAGE_H

/* When PHP's modules start. Does nothing if the supervisor has sent no page. */
void engine_error_page_start(void);

#endif
