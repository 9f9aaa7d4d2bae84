/* PHP's open streams. */
#ifndef REPRISE_STREAMS_H
#define REPRISE_STREAMS_H

/* Calls `each` with the path of every stream that the application itself implements and that is open for writing. */
void engine_each_written_user_stream(void (*each)(const char *path));

/* The body of the request is gone, and with it all streams of php://input. What has not come of it is not waited for.
 */
void engine_close_request_body(void);

#endif
